import { html, nothing, type TemplateResult } from "lit";
import { repeat } from "lit/directives/repeat.js";
import { confirmAction } from "../confirm-dialog.ts";
import { Retry } from "../live/retry.ts";
import { pathOf } from "../destinations/address.ts";
import { liveDestination } from "../live/destination.ts";
import { request, errorText, read } from "../live/requests.ts";
import { Follow } from "../live/source.ts";
import type { SubscriptionState } from "../generated/tables.ts";
import { gettext, ngettext } from "../gettext.ts";
import { showToast } from "../toasts.ts";
import { NONE, count, duration, rate } from "../view/format.ts";
import { openBulkDialog } from "../messages/actions.ts";
import { signIn, signView } from "../view/sign.ts";
import { SUBSCRIPTION_STATE } from "../generated/signs/subscription-state.ts";
import { Island } from "./island.ts";
import "./consumer-list.ts";
import { hintOf, refusal } from "../view/refusal.ts";

interface Subscription {
  name: string;
  topic: string;
  durable: boolean;
  shared: boolean;
  selector: string | null;
  owner: string;
  state: SubscriptionState;
  consumers: number;
  backlog: number;
  unsettled: number;
  lag: number;
  lag_s: number;
  acknowledged: number;
}

const READ_EVERY_MS = 3_000;

/** Durable and shared subscriptions of a topic, connected subscribers, and retained messages. */
export class SubscriptionList extends Island {
  static override properties = { name: {} };

  declare name: string;

  #subscriptions: Subscription[] | undefined;
  #total = 0;
  #rates = new Map<string, number>();
  #readAt = 0;
  #fault: unknown;
  readonly #retry = new Retry(this, () => void this.#read());
  #timer: ReturnType<typeof setInterval> | undefined;

  constructor() {
    super();
    new Follow(this, () => [liveDestination("topic", this.name)]);
  }

  override connectedCallback(): void {
    super.connectedCallback();
    this.#timer = setInterval(() => void (document.hidden || this.#read()), READ_EVERY_MS);
    void this.#read();
  }

  override disconnectedCallback(): void {
    super.disconnectedCallback();
    clearInterval(this.#timer);
  }

  protected override render() {
    return html`<section>
        <h2>${gettext("Durable and shared subscriptions")}</h2>
        ${this.#fault === undefined ? nothing : this.#failed()} ${this.#list()}
      </section>
      <section>
        <h2>${gettext("Connected subscribers")}</h2>
        <mom-consumer-list kind="topic" name=${this.name}></mom-consumer-list>
      </section>
      ${this.#kept()}`;
  }

  #list(): TemplateResult {
    if (this.#subscriptions === undefined) {
      return html`<div class="skeleton" role="status"><span class="visually-hidden">${gettext("Loading subscriptions")}</span><div></div><div></div></div>`;
    }
    if (this.#subscriptions.length === 0) {
      return html`<p class="quiet">
        ${gettext("No subscriptions. A durable subscription keeps messages while its client is offline; a shared one divides them among several clients.")}
      </p>`;
    }
    return html`<p class="quiet" role="status">
        ${ngettext("{count} subscription", "{count} subscriptions", this.#total)}${
          this.#total > this.#subscriptions.length ? gettext("; the first {shown} are shown", { shown: count(this.#subscriptions.length) }) : nothing
        }
      </p>
      <table class="resources" data-old=${this.#fault === undefined ? nothing : "true"}>
        <thead>
          <tr>
            <th scope="col">${gettext("name")}</th>
            <th scope="col">${gettext("state")}</th>
            <th scope="col">${gettext("filter")}</th>
            <th scope="col" class="num">${gettext("backlog")}</th>
            <th scope="col" class="num">${gettext("lag")}</th>
            <th scope="col" class="num">${gettext("acknowledged/s")}</th>
            <th scope="col" class="num">${gettext("consumers")}</th>
            <th scope="col"><span class="visually-hidden">${gettext("actions")}</span></th>
          </tr>
        </thead>
        <tbody>
          ${repeat(
            this.#subscriptions,
            ({ name }) => name,
            (one) => this.#row(one),
          )}
        </tbody>
      </table>`;
  }

  #row(one: Subscription): TemplateResult {
    const kinds = [one.durable && gettext("durable"), one.shared && gettext("shared")].filter(Boolean);
    const speed = this.#rates.get(one.name);
    return html`<tr>
      <th scope="row">
        ${one.name} ${kinds.map((kind) => html`<span class="tag">${kind}</span> `)}
        <span class="quiet">${gettext("of {owner}", { owner: one.owner })}</span>
      </th>
      <td data-label=${gettext("state")}>${signView(signIn(SUBSCRIPTION_STATE, one.state))}</td>
      <td data-label=${gettext("filter")}>${one.topic}${one.selector === null ? nothing : html` <code>${one.selector}</code>`}</td>
      <td class="num" data-label=${gettext("backlog")}>${count(one.backlog)}</td>
      <td class="num" data-label=${gettext("lag")}>${count(one.lag)} · ${one.lag ? duration(one.lag_s) : NONE}</td>
      <td class="num" data-label=${gettext("acknowledged/s")}>${speed === undefined ? NONE : rate(speed)}</td>
      <td class="num" data-label=${gettext("consumers")}>${count(one.consumers)}</td>
      <td>
        <button
          type="button" ?disabled=${one.consumers > 0 || refusal() !== undefined}
          title=${hintOf(one.consumers > 0 ? gettext("it has a consumer; close it first") : undefined)}
          aria-label=${gettext("Delete the subscription {name}", { name: one.name })} @click=${() => void this.#remove(one)}
        >${gettext("Delete…")}</button>
      </td>
    </tr>`;
  }

  async #remove(one: Subscription): Promise<void> {
    const answer = await confirmAction({
      title: gettext("Delete the subscription {name}", { name: one.name }),
      effect: ngettext(
        "The subscription and its {count} message are deleted permanently.",
        "The subscription and its {count} messages are deleted permanently.",
        one.lag,
      ),
      button: gettext("Delete"),
      danger: true,
      typed: one.name,
    });
    if (answer === null) return;
    try {
      await request("DELETE", `subscriptions/${encodeURIComponent(one.name)}`, undefined, answer.reason);
      showToast({ text: gettext("The subscription {name} was deleted.", { name: one.name }), tone: "good" });
    } catch (fault) {
      showToast({ text: errorText(fault), tone: "bad" });
    }
    await this.#read();
  }

  /** Retained messages, and their replay into a queue. */
  #kept(): TemplateResult | typeof nothing {
    const { facts } = liveDestination("topic", this.name);
    const retains = ["retention_s", "retention_bytes"].some((name) => Number(facts?.settings[name]?.value ?? 0) > 0);
    if (facts === undefined) return nothing;
    return html`<section>
      <h2>${gettext("Replay")}</h2>
      ${
        retains
          ? html`<p>${gettext("Published messages are retained for a time. They can be replayed into a queue.")}
            <button type="button" ?disabled=${!facts.permissions.includes("read")} @click=${() => void openBulkDialog("replay", `topic:${this.name}`, {})}>${gettext("Replay into a queue…")}</button></p>`
          : html`<p class="quiet">${gettext("No messages are retained for replay: the settings retention and retention bytes are 0.")}
            <a href=${`?${new URLSearchParams({ name: this.name, tab: "settings" })}`}>${gettext("Settings")}</a></p>`
      }
    </section>`;
  }

  async #read(): Promise<void> {
    try {
      const body = await read<{ items: Subscription[]; approx_total: number }>(pathOf("topic", this.name, "subscriptions"));
      const now = performance.now();
      const before = new Map(this.#subscriptions?.map((one) => [one.name, one.acknowledged]));
      const elapsed_s = (now - this.#readAt) / 1000;
      this.#rates = new Map(
        body.items.filter(({ name }) => before.has(name)).map(({ name, acknowledged }) => [name, Math.max(0, (acknowledged - before.get(name)!) / elapsed_s)]),
      );
      this.#readAt = now;
      this.#subscriptions = body.items;
      this.#total = body.approx_total;
      this.#fault = undefined;
    } catch (fault) {
      this.#fault = fault;
    }
    this.#retry.after(this.#fault);
    this.requestUpdate();
  }

  #failed(): TemplateResult {
    return html`<p class="notice" data-tone="bad" role="status">
      <strong>${gettext("The subscriptions could not be loaded.")}</strong> ${errorText(this.#fault)}
      <button type="button" class="link" @click=${() => void this.#read()}>${gettext("Try again")}</button>
    </p>`;
  }
}

customElements.define("mom-subscription-list", SubscriptionList);
