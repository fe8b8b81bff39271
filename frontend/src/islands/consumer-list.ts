import { html, nothing, type TemplateResult } from "lit";
import { repeat } from "lit/directives/repeat.js";
import { confirmAction } from "../confirm-dialog.ts";
import { Retry } from "../live/retry.ts";
import { pathOf, topicOf, type Kind } from "../destinations/address.ts";
import { liveDestination } from "../live/destination.ts";
import { request, errorText, read } from "../live/requests.ts";
import { Follow } from "../live/source.ts";
import { session } from "../services.ts";
import { gettext, ngettext } from "../gettext.ts";
import { showToast } from "../toasts.ts";
import type { Consumer as Subscribed } from "../view/connection.ts";
import { NONE, ago, count, duration, fullTime, rate } from "../view/format.ts";
import { Island } from "./island.ts";
import { iconView } from "../view/icon.ts";
import { hintOf, refusal } from "../view/refusal.ts";

/** A consumer with its connection. */
interface Consumer extends Omit<Subscribed, "waiting"> {
  connection: string | null;
  user: string;
  client: string | null;
  address: string | null;
  protocol: string | null;
  transport: string | null;
  hold_s: { p50: number | null; p95: number | null; samples: number };
}

interface Rates {
  delivered: number;
  acknowledged: number;
}

const READ_EVERY_MS = 2_000;
const { basePath = "/" } = document.body.dataset;

/** The consumers of a destination, with their rates; closing one. */
export class ConsumerList extends Island {
  static override properties = { kind: {}, name: {} };

  declare kind: Kind;
  declare name: string;

  #consumers: Consumer[] | undefined;
  #total = 0;
  #rates = new Map<string, Rates>();
  #readAt = 0;
  #begun = false;
  #fault: unknown;
  readonly #retry = new Retry(this, () => void this.#read());
  #timer: ReturnType<typeof setInterval> | undefined;
  #unsubscribe: (() => void) | undefined;

  constructor() {
    super();
    new Follow(this, () => [liveDestination(this.kind, this.name)]);
  }

  protected override willUpdate(): void {
    // Consumers are requested only if the destination exists.
    const { facts, fault, isMissing } = liveDestination(this.kind, this.name);
    if (this.#begun || isMissing || (facts === undefined && fault === undefined)) return;
    this.#begun = true;
    void this.#read();
  }

  override connectedCallback(): void {
    super.connectedCallback();
    // New and closed consumers are pushed; their counts have to be requested.
    this.#unsubscribe = session.subscribe(topicOf("consumer", this.name), () => void this.#read());
    this.#timer = setInterval(() => void (document.hidden || this.#read()), READ_EVERY_MS);
  }

  override disconnectedCallback(): void {
    super.disconnectedCallback();
    this.#unsubscribe?.();
    clearInterval(this.#timer);
  }

  protected override render() {
    if (liveDestination(this.kind, this.name).isMissing) return this.#empty();
    if (this.#consumers === undefined) return this.#fault === undefined ? skeleton() : this.#failed();
    if (this.#consumers.length === 0 && this.#fault === undefined) return this.#empty();
    return html`${this.#fault === undefined ? nothing : this.#failed()}
      <p class="quiet" role="status">
        ${ngettext("{count} consumer", "{count} consumers", this.#total)}${
          this.#total > this.#consumers.length ? gettext("; the first {shown} are shown", { shown: count(this.#consumers.length) }) : nothing
        }
      </p>
      <table class="resources consumers" data-old=${this.#fault === undefined ? nothing : "true"}>
        <thead>
          <tr>
            <th scope="col">${gettext("client")}</th>
            <th scope="col">${gettext("ack mode")}</th>
            <th scope="col">${gettext("selector")}</th>
            <th scope="col" class="num">${gettext("unsettled / credit")}</th>
            <th scope="col" class="num">${gettext("delivered")}</th>
            <th scope="col" class="num">${gettext("acknowledged")}</th>
            <th scope="col" class="num">${gettext("processing time (p50 · p95)")}</th>
            <th scope="col">${gettext("since")}</th>
            <th scope="col"><span class="visually-hidden">${gettext("actions")}</span></th>
          </tr>
        </thead>
        <tbody>
          ${repeat(this.#consumers, keyOf, (consumer) => this.#row(consumer))}
        </tbody>
      </table>`;
  }

  #row(consumer: Consumer): TemplateResult {
    const rates = this.#rates.get(keyOf(consumer));
    const { p50, p95 } = consumer.hold_s;
    const { connection, slow_since: slow } = consumer;
    const name = consumer.client || consumer.user;
    const about = [consumer.client ? consumer.user : null, consumer.address, consumer.protocol, consumer.transport].filter((each) => each !== null);
    return html`<tr>
      <th scope="row">
        ${
          connection
            ? html`<a href=${`${basePath}console/connections/one?${new URLSearchParams({ id: connection })}`}>${name}</a>`
            : html`${name} <span class="tag">REST</span>`
        }
        ${slow ? html`<span class="state" data-tone="warn" title=${gettext("not reading since {time}", { time: fullTime(slow) })}>${iconView("triangle-alert")} ${gettext("slow")}</span>` : nothing}
        ${consumer.active ? nothing : html`<span class="tag">${gettext("standby")}</span>`}
        ${consumer.exclusive ? html`<span class="tag">${gettext("exclusive")}</span>` : nothing}
        ${consumer.priority ? html`<span class="tag">${gettext("priority {number}", { number: consumer.priority })}</span>` : nothing}
        <span class="quiet about">${about.join(" · ")}${consumer.destination === `/${this.kind}/${this.name}` ? "" : ` · ${consumer.destination}`}</span>
      </th>
      <td data-label=${gettext("ack mode")}><span class="word">${consumer.ack}</span></td>
      <td data-label=${gettext("selector")}>${consumer.selector === null ? html`<span class="quiet">${gettext("all")}</span>` : html`<code>${consumer.selector}</code>`}</td>
      <td class="num" data-label=${gettext("unsettled / credit")}>${count(consumer.unsettled)} / ${count(consumer.credit)}</td>
      <td class="num" data-label=${gettext("delivered")}>${count(consumer.delivered)} ${perSecond(rates?.delivered)}</td>
      <td class="num" data-label=${gettext("acknowledged")}>${count(consumer.acknowledged)} ${perSecond(rates?.acknowledged)}</td>
      <td class="num" data-label=${gettext("processing time (p50 · p95)")}>${p50 === null || p95 === null ? NONE : `${duration(p50)} · ${duration(p95)}`}</td>
      <td data-label=${gettext("since")}><time datetime=${consumer.since} title=${fullTime(consumer.since)}>${ago(consumer.since)}</time></td>
      <td>
        ${
          connection
            ? html`<button type="button" class="plain" ?disabled=${refusal() !== undefined} @click=${() => void this.#close(consumer, connection)} title=${hintOf(gettext("Close connection…"))} aria-label=${gettext("Close the connection of {user}", { user: name })}>
              ${iconView("x")}
            </button>`
            : nothing
        }
      </td>
    </tr>`;
  }

  async #close(consumer: Consumer, connection: string): Promise<void> {
    const answer = await confirmAction({
      title: gettext("Close the connection of {user}", { user: consumer.user }),
      effect: gettext("All its subscriptions end, and its unsettled messages are returned to the queue. The client may reconnect by itself."),
      button: gettext("Close"),
      danger: true,
      typed: consumer.user,
      fields: html`<label>${gettext("Reason shown to the client")}
        <input name="shown_reason" maxlength="500" required value=${gettext("an operator closed the connection")} />
      </label>`,
    });
    if (answer === null) return;
    try {
      const reason = String(answer.fields.get("shown_reason"));
      const path = `connections/${encodeURIComponent(connection)}`;
      await request("DELETE", path, { reason }, answer.reason);
      showToast({ text: gettext("The connection of {user} was closed.", { user: consumer.user }), tone: "good" });
    } catch (fault) {
      showToast({ text: errorText(fault), tone: "bad" });
    }
    await this.#read();
  }

  async #read(): Promise<void> {
    if (!this.#begun || liveDestination(this.kind, this.name).isMissing) return;
    try {
      const body = await read<{ items: Consumer[]; approx_total: number }>(pathOf(this.kind, this.name, "consumers"));
      const now = performance.now();
      this.#measure(body.items, (now - this.#readAt) / 1000);
      this.#readAt = now;
      this.#consumers = body.items;
      this.#total = body.approx_total;
      this.#fault = undefined;
    } catch (fault) {
      this.#fault = fault;
    }
    this.#retry.after(this.#fault);
    this.requestUpdate();
  }

  /** The rates between the last two requests. */
  #measure(consumers: Consumer[], elapsed_s: number): void {
    const before = new Map(this.#consumers?.map((consumer) => [keyOf(consumer), consumer]));
    // Two requests in quick succession: the former rates are more precise.
    if (elapsed_s < 1 && before.size > 0) return;
    this.#rates = new Map();
    for (const consumer of consumers) {
      const former = before.get(keyOf(consumer));
      if (former === undefined) continue;
      this.#rates.set(keyOf(consumer), {
        delivered: (consumer.delivered - former.delivered) / elapsed_s,
        acknowledged: (consumer.acknowledged - former.acknowledged) / elapsed_s,
      });
    }
  }

  #empty(): TemplateResult {
    return html`<div class="empty">
      ${iconView("user-x")}
      <p>${this.kind === "queue" ? gettext("This queue has no consumers. Messages wait until one connects.") : gettext("This topic has no subscribers.")}</p>
      <a class="button" href=${`?${new URLSearchParams({ name: this.name, tab: "connect" })}`}>${gettext("Show example code")}</a>
    </div>`;
  }

  #failed(): TemplateResult {
    return html`<p class="notice" data-tone="bad" role="status">
      <strong>${gettext("The consumers could not be loaded.")}</strong> ${errorText(this.#fault)}
      <button type="button" class="link" @click=${() => void this.#read()}>${gettext("Try again")}</button>
    </p>`;
  }
}

function keyOf({ connection, user, id, destination }: Consumer): string {
  return `${connection ?? user}/${id}/${destination}`;
}

function perSecond(value: number | undefined): TemplateResult | typeof nothing {
  return value === undefined ? nothing : html`<span class="quiet">${gettext("{rate}/s", { rate: rate(Math.max(0, value)) })}</span>`;
}

function skeleton(): TemplateResult {
  return html`<div class="skeleton" role="status">
    <span class="visually-hidden">${gettext("Loading consumers")}</span>
    ${Array.from({ length: 4 }, () => html`<div></div>`)}
  </div>`;
}

customElements.define("mom-consumer-list", ConsumerList);
