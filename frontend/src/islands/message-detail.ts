import { html, nothing, type PropertyValues, type TemplateResult } from "lit";
import { openBulkDialog } from "../messages/actions.ts";
import { deleteOne, retryOne } from "../messages/single-message.ts";
import { originOf, pathOf } from "../messages/path.ts";
import { reasonList } from "../messages/reason-list.ts";
import { faultOf, why, type Message, type Reason } from "../messages/requests.ts";
import { pageOf } from "../pages.ts";
import { gettext, ngettext } from "../gettext.ts";
import { pageAddress, server } from "../services.ts";
import { showToast } from "../toasts.ts";
import { bodyOf } from "../view/body.ts";
import { bytes, count, fullTime } from "../view/format.ts";
import "./body-view.ts";
import { Island } from "./island.ts";
import { hintOf, refusal } from "../view/refusal.ts";

/** One message, whole: body, headers, its path, why it is here, and what can be done to it. */
export class MessageDetail extends Island {
  static override properties = { message: { attribute: false }, others: { attribute: false } };

  declare message: Message;
  declare others: Message[];
  /** Where it waits, bare; empty for what a topic retains, which can only be looked at. */
  declare queue: string;
  /** The topic that retains it, bare. */
  declare topic: string;
  /** In a cluster the other broker that owns it: there it is read, moved and deleted. */
  declare owner: string | undefined;

  #reasons: Reason[] | undefined;
  #error = "";

  protected override willUpdate(changes: PropertyValues<this>): void {
    if (changes.has("message") && changes.get("message")?.id !== this.message.id) this.#reasons = undefined;
  }

  protected override render() {
    const { message, queue, owner } = this;
    if (owner) {
      return html`
        <h2 class="visually-hidden">${gettext("Message")}</h2>
        <p class="notice" data-tone="quiet">${gettext("Open the console of {broker} to read, move or delete it.", { broker: owner })}</p>
        <div class="message-aside">${[this.#path(), this.#why()]} ${this.#facts()}</div>
      `;
    }
    return html`
      <h2 class="visually-hidden">${gettext("Message")}</h2>
      <div class="message-parts">
        <mom-body-view .queue=${queue} .message=${message} .others=${this.others}></mom-body-view>
        <div class="message-aside">
          ${queue ? [this.#path(), this.#why()] : nothing} ${this.#facts()}
        </div>
      </div>
      ${this.#actions()}
    `;
  }

  #path(): TemplateResult {
    return html`<section>
      <h3>${gettext("Path")}</h3>
      <ol class="path">
        ${pathOf(this.message, this.queue).map(
          ({ time, text, tone }) => html`<li data-tone=${tone ?? nothing}>
            ${text}${time ? html` <time class="quiet num" datetime=${time} title=${time}>${fullTime(time)}</time>` : nothing}
          </li>`,
        )}
      </ol>
    </section>`;
  }

  #facts(): TemplateResult {
    const { message } = this;
    const facts: [string, string | null][] = [
      ["message-id", message.id],
      [gettext("position"), count(message.position)],
      [gettext("published"), message.time],
      [gettext("due"), message.due ?? null],
      [gettext("size"), bytes(message.size)],
      ["content-type", message.content_type ?? gettext("not set")],
      [gettext("priority"), String(message.priority)],
      [gettext("persistent"), message.persistent ? gettext("yes") : gettext("no")],
      [gettext("attempt"), this.queue ? String(message.attempt) : null],
      ["type", message.type],
      ["correlation-id", message.correlation_id],
      ["reply-to", message.reply_to],
    ];
    const headers = Object.entries(message.headers);
    return html`<section>
      <h3>${gettext("Properties")}</h3>
      <dl class="pairs">
        ${facts.map(([name, value]) => (value === null ? nothing : html`<dt>${name}</dt><dd>${value}</dd>`))}
      </dl>
      <h3>${ngettext("{count} header", "{count} headers", headers.length)}</h3>
      <dl class="pairs headers">${headers.map(([name, value]) => html`<dt>${name}</dt><dd>${value}</dd>`)}</dl>
    </section>`;
  }

  #why(): TemplateResult {
    const toggled = (event: Event) => {
      if ((event.target as HTMLDetailsElement).open && this.#reasons === undefined) void this.#ask();
    };
    return html`<details class="why" @toggle=${toggled}>
      <summary>${gettext("Why is this message here?")}</summary>
      ${this.#error ? html`<p class="notice" data-tone="bad" role="alert">${this.#error}</p>` : nothing}
      ${this.#reasons === undefined ? nothing : reasonList(this.#reasons)}
    </details>`;
  }

  async #ask(): Promise<void> {
    try {
      this.#reasons = await why(this.queue, this.message.id);
      this.#error = "";
    } catch (error) {
      this.#error = faultOf(error, gettext("The broker cannot be reached."));
    }
    this.requestUpdate();
  }

  #actions(): TemplateResult {
    const { message, queue } = this;
    const origin = originOf(message);
    const ids = { ids: [message.id] };
    const unsettled = message.state === "unsettled";
    const held = unsettled || refusal() !== undefined;
    const hint = hintOf(unsettled ? gettext("The message is unsettled; its consumer settles it.") : undefined);
    const gone = () => this.dispatchEvent(new CustomEvent("gone", { bubbles: true }));
    const here = queue ? `/queue/${queue}` : `/topic/${this.topic}`;
    const template = queue ? { from: queue, template: message.id } : undefined;
    return html`<div class="tools message-acts">
      ${
        origin
          ? html`<button type="button" class="primary" ?disabled=${held} title=${hint} @click=${() => retryOne(queue, message)}>
              ${gettext("Retry")}
            </button>
            <a class="button" href=${pageOf(`/queue/${origin}`, "publish", { ...template!, replace: "1" })}>${gettext("Edit and retry…")}</a>`
          : nothing
      }
      ${
        queue
          ? html`<button type="button" ?disabled=${held} title=${hint} @click=${() => openBulkDialog("move", queue, ids, 1)}>${gettext("Move…")}</button>
            <button type="button" ?disabled=${held} title=${hint} @click=${() => deleteOne(queue, message, gone)}>${gettext("Delete…")}</button>
            <a class="button" href=${pageOf(here, "publish", template)}>${gettext("Use as template")}</a>`
          : nothing
      }
      <button type="button" class="link" @click=${() => this.#copy(this.#permalink())}>${gettext("Copy permalink")}</button>
      ${
        this.#text === undefined
          ? nothing
          : html`<button type="button" class="link" @click=${async () => this.#copy(await this.#code())}>${gettext("Copy as curl")}</button>`
      }
    </div>`;
  }

  #permalink(): string {
    return new URL(pageAddress.href({ message: this.message.id, q: "", order: "", after: "" }), location.href).href;
  }

  /** Its body, if it is whole and a text. */
  get #text(): string | undefined {
    return this.message.truncated ? undefined : bodyOf(this.message).text;
  }

  /** The command that publishes it once more. */
  async #code(): Promise<string> {
    const { publishMessageAsCode } = await import("../messages/message-code.ts");
    return publishMessageAsCode(this.message, this.queue ? `/queue/${this.queue}` : `/topic/${this.topic}`, this.#text!, server);
  }

  async #copy(text: string): Promise<void> {
    try {
      await navigator.clipboard.writeText(text);
      showToast({ text: gettext("Copied."), tone: "quiet" });
    } catch {
      showToast({ text: gettext("The browser does not allow copying: {text}", { text }), tone: "warn" });
    }
  }
}

customElements.define("mom-message-detail", MessageDetail);
