import { html, nothing, type TemplateResult } from "lit";
import { repeat } from "lit/directives/repeat.js";
import { Retry } from "../live/retry.ts";
import { RequestRefused } from "../live/rest.ts";
import { errorText } from "../live/requests.ts";
import { Follow } from "../live/source.ts";
import { openBulkDialog } from "../messages/actions.ts";
import { history, type Message } from "../messages/requests.ts";
import { ofAnotherJournal } from "../messages/unknown-position.ts";
import { loadModule } from "../load-module.ts";
import { pageOf } from "../pages.ts";
import { gettext, ngettext } from "../gettext.ts";
import { pageAddress } from "../services.ts";
import "../style/messages.css";
import { bodyOf, preview } from "../view/body.ts";
import { ago, bytes, count, fullTime } from "../view/format.ts";
import { Island } from "./island.ts";
import "./message-detail.ts";
import { iconView } from "../view/icon.ts";

const PAGE = 50;
/** Where one can begin: the value of `from` in the address, in seconds before now where it is a time. */
const BEGINNINGS = ["first", "60", "3600", "86400", "last"] as const;

/** The retained messages of a topic. The state is in the address: `from` (first, last, seq:…, seconds before now), `message`, `tail`. */
export class HistoryBrowser extends Island {
  static override properties = { topic: {} };

  /** Without its kind: `prices`. */
  declare topic: string;

  #asked: string | undefined;
  #items: Message[] = [];
  #next: string | null = null;
  #total = 0;
  #unknownPosition = false;
  #state: "loading" | "shown" | "gone" | "failed" = "loading";
  #first = true;
  #fault = "";
  readonly #retry = new Retry(this, () => void this.#read());

  constructor() {
    super();
    new Follow(this, () => [pageAddress]);
  }

  override connectedCallback(): void {
    super.connectedCallback();
    if (pageAddress.get("tail") === "on") void loadModule(() => import("./message-tail.ts"));
  }

  protected override willUpdate(): void {
    const asked = JSON.stringify([this.topic, pageAddress.get("from")]);
    if (asked === this.#asked) return;
    this.#asked = asked;
    void this.#read();
  }

  async #read(): Promise<void> {
    const asked = this.#asked;
    this.#state = "loading";
    try {
      const page = await history(this.topic, fromOf(pageAddress.get("from")), PAGE);
      if (asked !== this.#asked) return;
      [this.#items, this.#next, this.#total] = [page.items, page.next, page.approx_total];
      this.#unknownPosition = page.unknown_position === true;
      this.#state = "shown";
      this.#first = false;
      this.#retry.after();
    } catch (fault) {
      if (asked !== this.#asked) return;
      this.#state = fault instanceof RequestRefused && fault.problem.status === 410 ? "gone" : "failed";
      this.#fault = errorText(fault);
      this.#retry.after(fault);
    }
    this.requestUpdate();
  }

  protected override render() {
    const isTail = pageAddress.get("tail") === "on";
    return html`${this.#tools(isTail)}
      ${isTail ? html`<mom-message-tail .address=${`/topic/${this.topic}`}></mom-message-tail>` : this.#shown()}`;
  }

  #tools(isTail: boolean): TemplateResult {
    const words: Record<(typeof BEGINNINGS)[number], string> = {
      first: gettext("Oldest"),
      "86400": gettext("Last day"),
      "3600": gettext("Last hour"),
      "60": gettext("Last minute"),
      last: gettext("Newest"),
    };
    const from = pageAddress.get("from") || "first";
    const tail = async () => {
      if (!isTail) await loadModule(() => import("./message-tail.ts"));
      pageAddress.go({ tail: isTail ? "" : "on" }, { replace: true });
    };
    return html`<div class="tools">
      <div class="segments" role="group" aria-label=${gettext("Start at")}>
        ${BEGINNINGS.map(
          (
            beginning,
          ) => html`<button type="button" aria-pressed=${from === beginning} @click=${() => pageAddress.go({ from: beginning === "first" ? "" : beginning, message: "", tail: "" })}>
            ${words[beginning]}
          </button>`,
        )}
      </div>
      <button type="button" aria-pressed=${isTail} @click=${() => void tail()}>${isTail ? gettext("■ Stop tailing") : gettext("▷ Tail")}</button>
      ${
        this.#total > 0 && !isTail
          ? html`<button type="button" @click=${() => openBulkDialog("replay", `topic:${this.topic}`, {})}>${gettext("Replay into a queue…")}</button>
            <span class="quiet" role="status">${ngettext("{count} message is retained", "{count} messages are retained", this.#total)}</span>`
          : nothing
      }
    </div>`;
  }

  #shown(): TemplateResult {
    if (this.#state === "gone" || this.#state === "failed") {
      return html`<div class="notice" data-tone=${this.#state === "gone" ? "warn" : "bad"} role="alert">
        <strong>${this.#state === "gone" ? gettext("These messages are no longer retained.") : gettext("The messages could not be loaded.")}</strong> ${this.#fault}
        ${
          this.#state === "gone"
            ? html`<button type="button" @click=${() => pageAddress.go({ from: "" })}>${gettext("Start at the oldest")}</button>`
            : html`<button type="button" @click=${() => this.#read()}>${gettext("Try again")}</button>`
        }
      </div>`;
    }
    if (this.#first)
      return html`<div class="skeleton" role="status"><span class="visually-hidden">${gettext("Loading messages")}</span>${[1, 2, 3, 4, 5].map(() => html`<div></div>`)}</div>`;
    if (this.#items.length === 0) return this.#empty();
    return html`${this.#unknownPosition ? ofAnotherJournal() : nothing}
      <table class="messages">
        <caption class="visually-hidden">${gettext("Retained messages of {topic}", { topic: this.topic })}</caption>
        <thead><tr>
          <th scope="col" class="num">#</th><th scope="col">${gettext("time")}</th><th scope="col" class="col-type">${gettext("type")}</th>
          <th scope="col" class="num">${gettext("size")}</th><th scope="col" class="col-headers">${gettext("headers")}</th><th scope="col" class="col-preview">${gettext("body")}</th>
        </tr></thead>
        <tbody>${repeat(
          this.#items,
          ({ id }) => id,
          (item) => this.#row(item),
        )}</tbody>
      </table>
      <p class="pager tools">
        ${pageAddress.get("from") ? html`<a href=${pageAddress.href({ from: "", message: "" })}>${gettext("◂ Oldest")}</a>` : nothing}
        ${this.#next ? html`<a href=${pageAddress.href({ from: this.#next, message: "" })}>${gettext("Newer ▸")}</a>` : nothing}
      </p>`;
  }

  #empty(): TemplateResult {
    if (this.#total > 0) {
      return html`<div class="empty">
        ${iconView("history")}
        <p>${ngettext("No messages since then. {count} older message is retained.", "No messages since then. {count} older messages are retained.", this.#total)}</p>
        <button type="button" @click=${() => pageAddress.go({ from: "" })}>${gettext("Start at the oldest")}</button>
      </div>`;
    }
    return html`<div class="empty">
      ${iconView("history")}
      <p>${gettext("No messages are retained. Set retention_s or retention_bytes to keep messages of this topic; otherwise only current subscribers receive them.")}</p>
      <a class="button primary" href=${pageOf(`/topic/${this.topic}`, "settings")}>${gettext("Settings")}</a>
    </div>`;
  }

  #row(item: Message): TemplateResult {
    const opened = pageAddress.get("message") === item.id;
    return html`<tr class="message" data-opened=${opened}>
        <th scope="row" class="num">
          <button type="button" class="opens" aria-expanded=${opened} @click=${() => pageAddress.go({ message: opened ? "" : item.id }, { replace: true })}>${count(item.position)}</button>
        </th>
        <td><time datetime=${item.time} title=${`${fullTime(item.time)} · ${item.time}`}>${ago(item.time)}</time></td>
        <td class="col-type">${item.type ?? item.content_type ?? ""}</td>
        <td class="num">${bytes(item.size)}</td>
        <td class="col-headers">${Object.entries(item.headers)
          .slice(0, 3)
          .map(([name, value]) => html`<span>${name}=${value}</span>`)}</td>
        <td class="col-preview">${preview(bodyOf(item)) || html`<span class="quiet">${gettext("(empty body)")}</span>`}</td>
      </tr>
      ${
        opened
          ? html`<tr class="message-details"><td colspan="6">
            <mom-message-detail queue="" .topic=${this.topic} .message=${item} .others=${this.#items}></mom-message-detail>
          </td></tr>`
          : nothing
      }`;
  }
}

/** A number is seconds before now; everything else is what the API takes. */
function fromOf(text: string): string {
  if (/^\d+$/.test(text)) return `time:${Date.now() - Number(text) * 1000}`;
  return text || "first";
}

customElements.define("mom-history-browser", HistoryBrowser);
