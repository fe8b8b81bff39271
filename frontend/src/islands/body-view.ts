import { html, nothing, type PropertyValues, type TemplateResult } from "lit";
import type { BrowsedMessage } from "../live/rest.ts";
import { bodyOf, hexDump, type Body } from "../view/body.ts";
import { jsonTree } from "../view/json-tree.ts";
import { copyButton } from "./copy-button.ts";
import { Island } from "./island.ts";

type Form = "Pretty" | "Compact" | "Raw" | "Hex";

/** A body as JSON tree, text or bytes. Everything is shown as text: nothing of a message is ever run. */
export class BodyView extends Island {
  static override properties = { message: { attribute: false } };

  declare message: BrowsedMessage;

  #body!: Body;
  #form: Form = "Raw";

  protected override willUpdate(changes: PropertyValues<this>): void {
    if (!changes.has("message")) return;
    this.#body = bodyOf(this.message);
    this.#form = this.#forms()[0]!;
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
      </div>
      ${this.message.truncated
        ? html`<p class="notice" data-tone="warn">Only the first part of the body is shown.</p>`
        : nothing}
      ${this.#shown()}
    `;
  }

  #forms(): Form[] {
    const { json, text, bytes } = this.#body;
    if (bytes === undefined) return ["Pretty", "Compact"];
    if (json !== undefined) return ["Pretty", "Raw", "Hex"];
    return text === undefined ? ["Hex"] : ["Raw", "Hex"];
  }

  #choose(form: Form): void {
    this.#form = form;
    this.requestUpdate();
  }

  #shown(): TemplateResult {
    const { bytes, json, text } = this.#body;
    if (bytes?.length === 0) return html`<p class="quiet">Empty.</p>`;
    if (this.#form === "Pretty") return html`<div class="body json">${jsonTree(json)}</div>`;
    const shown = this.#form === "Hex" && bytes ? hexDump(bytes) : text;
    return html`<pre class="body" data-form=${this.#form} tabindex="0" aria-label="Body as ${this.#form}">${shown}</pre>`;
  }
}
customElements.define("mom-body-view", BodyView);
