import { html, nothing } from "lit";
import { Polling } from "../live/polling.ts";
import { request, read } from "../live/requests.ts";
import type { BrowsedMessage, Page } from "../live/rest.ts";
import { gettext } from "../gettext.ts";
import { session } from "../services.ts";
import { showToast } from "../toasts.ts";
import { bytes } from "../view/format.ts";
import { bareName } from "../view/name.ts";
import { moment } from "../view/moment.ts";
import "../style/welcome.css";
import { Island } from "./island.ts";
import { snippetBlock } from "./snippet-block.ts";
import { iconView } from "../view/icon.ts";

const EVERY_MS = 1_000;
const SHOWN = 10;

interface Delivered {
  id: string;
  receipt?: string;
  body?: unknown;
}

/** The first steps with an empty queue: send a message, receive it, subscribe. Each step appears when the one before has worked. */
export class QuickStart extends Island {
  static override properties = { queue: {}, receive: {}, listen: {}, received: { state: true }, streamed: { state: true }, streaming: { state: true } };

  declare queue: string;
  /** Lines for a shell. */
  declare receive: string;
  declare listen: string;
  declare received: Delivered[];
  declare streamed: Delivered[];
  declare streaming: boolean;

  readonly #polling = new Polling<BrowsedMessage[]>(
    this,
    () => this.#waiting(),
    EVERY_MS,
    () => [`$mom.stats.${this.queue}`],
  );
  #source: EventSource | undefined;

  constructor() {
    super();
    this.received = [];
    this.streamed = [];
    this.streaming = false;
  }

  // End the subscription before a form of the page removes the queue.
  readonly #leave = () => {
    this.#source?.close();
    this.#source = undefined;
    this.streaming = false;
  };

  override connectedCallback(): void {
    super.connectedCallback();
    document.addEventListener("submit", this.#leave);
  }

  override disconnectedCallback(): void {
    super.disconnectedCallback();
    document.removeEventListener("submit", this.#leave);
    this.#leave();
  }

  get #path(): string {
    return `queues/${encodeURIComponent(this.queue)}`;
  }

  /** The messages in the queue; none if it does not exist. */
  async #waiting(): Promise<BrowsedMessage[]> {
    const found = await read<Page<{ name: string }>>("queues", { q: this.queue, fields: "name", limit: 500 });
    if (!found.items.some(({ name }) => bareName(name) === this.queue)) return [];
    return (await read<Page<BrowsedMessage>>(`${this.#path}/messages`, { limit: SHOWN })).items;
  }

  async #send(): Promise<void> {
    const headers = { "content-type": "text/plain" };
    const outcome = await session.publish({ destination: `/queue/${this.queue}`, body: gettext("Hello from this page"), headers });
    if (outcome.kind === "unconfirmed") showToast({ text: outcome.why, tone: "bad" });
    if (outcome.kind === "refused") showToast({ text: outcome.problem.detail, tone: "bad" });
    this.#polling.again();
  }

  async #receive(): Promise<void> {
    await this.#operation(async () => {
      const { items } = await request<{ items: Delivered[] }>("POST", `${this.#path}/receive`, { max: SHOWN, ack: "auto" });
      this.received = [...items, ...this.received].slice(0, SHOWN);
    });
  }

  /** Open an event stream: each message arrives as an event, and is settled by its receipt. */
  #subscribe(): void {
    const { basePath = "/" } = document.body.dataset;
    this.#source = new EventSource(`${basePath}api/v1/${this.#path}/events`);
    this.#source.onopen = () => (this.streaming = true);
    this.#source.onerror = () => (this.streaming = false);
    this.#source.onmessage = (event) => {
      const message = JSON.parse(event.data as string) as Delivered;
      this.streamed = [message, ...this.streamed].slice(0, SHOWN);
      void this.#operation(() => request("POST", "leases/settle", { ack: [message.receipt] }));
    };
  }

  async #operation(action: () => Promise<unknown>): Promise<void> {
    try {
      await action();
    } catch (fault) {
      showToast({ text: fault instanceof Error ? fault.message : String(fault), tone: "bad" });
    }
    this.#polling.again();
  }

  protected override render() {
    const waiting = this.#polling.answer ?? [];
    const arrived = waiting.length > 0 || this.received.length > 0 || this.streamed.length > 0;
    return html`<header><h2>${gettext("The queue {name}", { name: this.queue })}</h2>
        <span class="state" data-tone=${waiting.length ? "good" : "quiet"}>${iconView(waiting.length ? "circle-check" : "circle")} ${waiting.length ? gettext("{count} waiting", { count: waiting.length }) : gettext("empty, waiting for messages")}</span>
      </header>
      <div class="inside">
        ${this.#polling.fault ? html`<p class="notice" data-tone="bad" role="alert">${this.#polling.fault}</p>` : nothing}
        <div role="status">${waiting.length ? this.#table(waiting) : html`<p class="quiet">${arrived ? gettext("All messages have been received.") : gettext("Messages you send appear here.")}</p>`}</div>
        <div class="tools"><button type="button" @click=${() => void this.#send()}>${gettext("Send a message from this page")}</button></div>
        ${arrived ? this.#receiving() : nothing} ${this.received.length ? this.#subscribing() : nothing}
      </div>`;
  }

  #table(messages: BrowsedMessage[]) {
    return html`<table class="resources">
      <caption class="visually-hidden">${gettext("Messages")}</caption>
      <thead><tr><th scope="col">${gettext("time")}</th><th scope="col">${gettext("body")}</th><th scope="col" class="num">${gettext("size")}</th></tr></thead>
      <tbody>${messages.map((message) => html`<tr><td data-label=${gettext("time")}>${moment(message.time)}</td><th scope="row"><code>${textOf(message.body)}</code></th><td class="num" data-label=${gettext("size")}>${bytes(message.size)}</td></tr>`)}</tbody>
    </table>`;
  }

  #receiving() {
    return html`<section aria-label=${gettext("Receive")}><h3>${gettext("The message has arrived. Now receive it.")}</h3>
      <div class="tools"><button type="button" class="primary" @click=${() => void this.#receive()}>${gettext("Receive")}</button></div>
      ${snippetBlock({ tool: gettext("Receive with curl"), code: this.receive })}
      ${this.received.length ? html`<ul class="received" role="status">${this.received.map(({ body }) => html`<li><span class="state" data-tone="good">${iconView("circle-check")} ${gettext("received")}</span> <code>${textOf(body)}</code></li>`)}</ul>` : nothing}
    </section>`;
  }

  #subscribing() {
    return html`<section aria-label=${gettext("Subscribe")}><h3>${gettext("Or subscribe, and receive messages as they arrive.")}</h3>
      <div class="tools">
        ${
          this.#source
            ? html`<span class="state" data-tone=${this.streaming ? "good" : "warn"}>${iconView(this.streaming ? "circle-check" : "triangle-alert")} ${this.streaming ? gettext("subscribed: send another message") : gettext("connecting")}</span>`
            : html`<button type="button" class="primary" @click=${() => {
                this.#subscribe();
                this.requestUpdate();
              }}>${gettext("Subscribe")}</button>`
        }
      </div>
      ${snippetBlock({ tool: gettext("Subscribe with curl"), code: this.listen })}
      ${this.streamed.length ? html`<ul class="received" role="status">${this.streamed.map(({ body }) => html`<li><span class="state" data-tone="good">${iconView("circle-check")} ${gettext("received")}</span> <code>${textOf(body)}</code></li>`)}</ul>` : nothing}
    </section>`;
  }
}

function textOf(body: unknown): string {
  return typeof body === "string" ? body : JSON.stringify(body ?? "");
}

customElements.define("mom-quick-start", QuickStart);
