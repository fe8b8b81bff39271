import { html, nothing, type PropertyValues, type TemplateResult } from "lit";
import { RequestRefused, type BrowsedMessage } from "../live/rest.ts";
import { bodyOf, hexDump, sniffBytes, type Body } from "../view/body.ts";
import { bytes as inBytes } from "../view/format.ts";
import { jsonTree } from "../view/json-tree.ts";
import { copyButton } from "./copy-button.ts";
import { Island } from "./island.ts";
import { rest } from "../services.ts";

type Form = "Pretty" | "Raw" | "Hex";

/** A longer body is not loaded into the page; it can be downloaded. */
const LARGEST_SHOWN = 256 * 1024;

/**
 * A body as JSON tree, text or bytes. Everything is shown as text: nothing of a message is ever run.
 * Browsing gives JSON parsed and long bodies cut, so the bytes themselves are fetched when they are asked for.
 */
export class BodyView extends Island {
  static override properties = { message: { attribute: false } };

  declare message: BrowsedMessage;
  declare queue: string;

  #body!: Body;
  #form: Form = "Raw";
  #error = "";

  protected override willUpdate(changes: PropertyValues<this>): void {
    if (!changes.has("message")) return;
    this.#body = bodyOf(this.message);
    this.#form = this.#forms()[0]!;
    this.#error = "";
  }

  protected override render() {
    return html`
      <div class="tools">
        <h3>Body</h3>
        <div class="segments" role="group" aria-label="Show the body as">
          ${this.#forms().map(
            (form) => html`<button type="button" aria-pressed=${form === this.#form} @click=${() => this.#choose(form)}>
              ${form}
            </button>`,
          )}
        </div>
        ${this.#body.text === undefined ? nothing : copyButton(this.#body.text, "Copy the body")}
        <a href=${rest.bodyUrl(this.queue, this.message.id)} download=${this.message.id}>Download</a>
      </div>
      ${this.#error ? html`<p class="notice" data-tone="bad" role="alert">${this.#error}</p>` : nothing}
      ${this.#cut()} ${this.#shown()}
    `;
  }

  #forms(): Form[] {
    const { json, text } = this.#body;
    if (json !== undefined) return ["Pretty", "Raw", "Hex"];
    return text === undefined ? ["Hex"] : ["Raw", "Hex"];
  }

  async #choose(form: Form): Promise<void> {
    if (form !== "Pretty" && !this.message.truncated) await this.#load();
    this.#form = form;
    this.requestUpdate();
  }

  /** Gets the bytes as they are stored, unless they are here. */
  async #load(): Promise<void> {
    if (this.#body.exact) return;
    const { message } = this;
    try {
      const bytes = await rest.body(this.queue, message.id);
      if (message !== this.message) return;
      this.#body = sniffBytes(bytes);
      this.#error = "";
    } catch (error) {
      this.#error = error instanceof RequestRefused ? error.message : "The broker cannot be reached.";
    }
    this.requestUpdate();
  }

  #cut(): TemplateResult | typeof nothing {
    if (!this.message.truncated || this.#body.exact) return nothing;
    const loadable = this.message.size <= LARGEST_SHOWN;
    return html`<p class="notice" data-tone="warn">
      Only the first part of ${inBytes(this.message.size)} is shown.
      ${loadable ? html`<button type="button" @click=${() => this.#load()}>Show all of it</button>` : nothing}
    </p>`;
  }

  #shown(): TemplateResult {
    const { bytes, json, text } = this.#body;
    if (bytes.length === 0) return html`<p class="quiet">Empty.</p>`;
    if (this.#form === "Pretty" && json !== undefined) return html`<div class="body json">${jsonTree(json)}</div>`;
    const shown = this.#form === "Hex" ? hexDump(bytes) : text;
    return html`<pre class="body" data-form=${this.#form} tabindex="0" aria-label="Body as ${this.#form}">${shown}</pre>`;
  }
}
customElements.define("mom-body-view", BodyView);
