import { html, nothing, type PropertyValues, type TemplateResult } from "lit";
import { RequestRefused, type BrowsedMessage } from "../live/rest.ts";
import { Follow } from "../live/source.ts";
import { bodyOf, preview } from "../view/body.ts";
import { ago, bytes, count, fullTime } from "../view/format.ts";
import { bareName } from "../view/name.ts";
import { Island } from "./island.ts";
import "./body-view.ts";
import { rest, statistics } from "../services.ts";

const PAGE = 50;

/** The messages of a queue, oldest first. Looking changes nothing: no delivery, no count, no order. */
export class MessageBrowser extends Island {
  /** Without its kind: `orders`. */
  static override properties = { queue: {} };

  declare queue: string;

  #items: BrowsedMessage[] = [];
  #next: string | null = null;
  #state: "loading" | "shown" | "failed" = "loading";
  #error = "";
  #depthThen: number | undefined;
  #opened = new Set<string>();

  constructor() {
    super();
    new Follow(this, () => [statistics]);
  }

  protected override willUpdate(changes: PropertyValues<this>): void {
    if (!changes.has("queue")) return;
    this.#items = [];
    this.#opened.clear();
    void this.#read(null);
  }

  protected override render() {
    return html`
      <div class="tools">
        <span class="quiet" role="status">${this.#says()}</span>
        <button type="button" data-tone=${this.#isOutdated() ? "accent" : nothing} @click=${() => this.#read(null)}>
          Refresh
        </button>
      </div>
      ${this.#state === "failed" ? this.#failed() : nothing}
      ${this.#items.length > 0
        ? html`<ol class="messages" data-old=${this.#state === "failed"}>
            ${this.#items.map((item) => this.#message(item))}
          </ol>`
        : nothing}
      ${this.#state === "shown" && this.#items.length === 0
        ? html`<div class="empty"><p>No messages in this queue now.</p></div>`
        : nothing}
      ${this.#next === null
        ? nothing
        : html`<p class="more"><button type="button" @click=${() => this.#read(this.#next)}>Newer ▸</button></p>`}
    `;
  }

  #says(): string {
    if (this.#state === "loading") return "reading…";
    if (this.#items.length === 0) return "";
    const size = `${count(this.#items.length)} shown, oldest first`;
    return this.#isOutdated() ? `${size} · the queue has changed since` : size;
  }

  #isOutdated(): boolean {
    const depth = statistics.destinations.get(this.queue)?.depth;
    return this.#state === "shown" && depth !== undefined && depth !== this.#depthThen;
  }

  /** Reads the page after `after`, or starts again from the oldest. What is shown stays until the answer is here. */
  async #read(after: string | null): Promise<void> {
    const { queue } = this;
    this.#state = "loading";
    this.requestUpdate();
    try {
      const page = await rest.browse(bareName(queue), after, PAGE);
      if (queue !== this.queue) return;
      this.#items = after === null ? page.items : [...this.#items, ...page.items];
      this.#next = page.next;
      this.#state = "shown";
    } catch (error) {
      if (queue !== this.queue) return;
      if (error instanceof RequestRefused && error.problem.status === 404) {
        this.#items = [];
        this.#state = "shown";
      } else {
        this.#state = "failed";
        this.#error = error instanceof RequestRefused ? error.message : "The broker cannot be reached.";
      }
    }
    this.#depthThen = statistics.destinations.get(queue)?.depth;
    this.requestUpdate();
  }

  #failed(): TemplateResult {
    return html`<div class="notice" data-tone="bad" role="alert">
      <strong>The messages could not be read.</strong> ${this.#error}
      <button type="button" @click=${() => this.#read(null)}>Try again</button>
    </div>`;
  }

  #message(item: BrowsedMessage): TemplateResult {
    const opened = this.#opened.has(item.id);
    const body = bodyOf(item);
    const headers = Object.entries(item.headers);
    return html`<li>
      <button type="button" class="message" aria-expanded=${opened} @click=${() => this.#toggle(item.id)}>
        <span class="message-id">${item.id}</span>
        <span class="message-facts">
          <time datetime=${item.time} title=${`${fullTime(item.time)} · ${item.time}`}>${ago(item.time)}</time>
          <span>${bytes(item.size)}</span>
          <span>priority ${item.priority}</span>
          <span>attempt ${item.attempt}</span>
          ${item.redelivered ? html`<span class="tag">redelivered</span>` : nothing}
          ${item.state === "unsettled" ? html`<span class="tag">unsettled</span>` : nothing}
          ${item.persistent ? nothing : html`<span class="tag">not persistent</span>`}
        </span>
        ${headers.length > 0
          ? html`<span class="message-headers">${headers.map(([key, value]) => html`<span>${key}=${value}</span>`)}</span>`
          : nothing}
        <span class="message-preview">${preview(body) || "(empty body)"}</span>
      </button>
      ${opened ? this.#details(item) : nothing}
    </li>`;
  }

  #details(item: BrowsedMessage): TemplateResult {
    const use = () => this.dispatchEvent(new CustomEvent("use-as-template", { detail: item }));
    return html`<div class="message-details">
      <mom-body-view .queue=${bareName(this.queue)} .message=${item}></mom-body-view>
      <h3>Headers</h3>
      <dl class="pairs">
        ${this.#facts(item).map(([key, value]) => html`<dt>${key}</dt><dd>${value}</dd>`)}
      </dl>
      <p><button type="button" @click=${use}>Use as template</button></p>
    </div>`;
  }

  #facts(item: BrowsedMessage): [string, string][] {
    return [
      ["message-id", item.id],
      ["position", count(item.position)],
      ["published", item.time],
      ["content-type", item.content_type ?? "not given"],
      ...Object.entries(item.headers),
    ];
  }

  #toggle(id: string): void {
    if (!this.#opened.delete(id)) this.#opened.add(id);
    this.requestUpdate();
  }
}
customElements.define("mom-message-browser", MessageBrowser);
