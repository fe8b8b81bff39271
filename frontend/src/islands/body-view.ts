import { html, nothing, type PropertyValues, type TemplateResult } from "lit";
import { body as bytesOf, bodyAddress, faultOf, tail, type Message } from "../messages/requests.ts";
import { gettext } from "../gettext.ts";
import { bodyOf, compressionOf, hexDump, opened, sniffBytes, type Body } from "../view/body.ts";
import { eventOf, prettyJson } from "../view/cloud-event.ts";
import { difference } from "../view/difference.ts";
import { bytes as inBytes } from "../view/format.ts";
import { jsonTree } from "../view/json-tree.ts";
import { indented } from "../view/xml.ts";
import { copyButton } from "./copy-button.ts";
import { Island } from "./island.ts";
import "../style/body.css";

type Form = "Pretty" | "Raw" | "Hex" | "Diff";

/** Of longer bodies only head and tail are shown. */
const LARGEST_SHOWN = 256 * 1024;
const TAIL_BYTES = 64 * 1024;
const IMAGES = /^image\/(png|jpeg|gif|webp|avif|bmp)\b/;

/**
 * A body as JSON tree, indented XML, form, image, text or bytes. Everything but images is rendered as text, so no
 * content of a message is executed. Browsing returns parsed JSON and cuts long bodies, so the original bytes are
 * fetched.
 */
export class BodyView extends Island {
  static override properties = { message: { attribute: false }, others: { attribute: false } };

  declare message: Message;
  /** Where it waits, bare; empty for what a topic retains, of which there are no more bytes than those here. */
  declare queue: string;
  /** Messages to compare with. */
  declare others: Message[];

  #body!: Body;
  #form: Form = "Raw";
  #error = "";
  /** The tail of a long body. */
  #tail: Uint8Array | undefined;
  #compression: string | undefined;
  #other: Message | undefined;

  protected override willUpdate(changes: PropertyValues<this>): void {
    if (!changes.has("message") || changes.get("message")?.id === this.message.id) return;
    this.#take(bodyOf(this.message));
    this.#error = "";
    this.#tail = this.#other = undefined;
    void this.#complete();
  }

  /** Detect the format of a body, decompress it, and show its first view. */
  #take(body: Body): void {
    this.#body = body;
    this.#form = this.#forms()[0]!;
    this.#compression = body.text === undefined ? compressionOf(body.bytes) : undefined;
  }

  /** Fetch the missing part of the body: all of it, or the tail of a long one. */
  async #complete(): Promise<void> {
    const { message, queue } = this;
    try {
      if (queue && message.truncated && message.size > LARGEST_SHOWN) this.#tail = await tail(queue, message.id, TAIL_BYTES);
      else if (queue && message.truncated) this.#take(sniffBytes(await bytesOf(queue, message.id), message.content_type));
      if (this.#compression && !this.#isCut) await this.#open(this.#compression as "gzip" | "deflate");
    } catch (error) {
      this.#error = faultOf(error, gettext("The broker cannot be reached."));
    }
    if (message === this.message) this.requestUpdate();
  }

  async #open(how: "gzip" | "deflate"): Promise<void> {
    const inside = await opened(this.#body.bytes, how, LARGEST_SHOWN).catch(() => undefined);
    if (inside === undefined) this.#compression = undefined;
    else this.#body = { ...sniffBytes(inside, this.message.content_type), exact: false };
    this.#form = this.#forms()[0]!;
  }

  get #isCut(): boolean {
    return this.message.truncated && this.#body.bytes.length < this.message.size;
  }

  protected override render() {
    return html`
      <div class="tools">
        <h3>${gettext("Body")}</h3>
        <div class="segments" role="group" aria-label=${gettext("Show the body as")}>
          ${this.#forms().map(
            (form) => html`<button type="button" aria-pressed=${form === this.#form} @click=${() => this.#choose(form)}>
              ${this.#titleOf(form)}
            </button>`,
          )}
        </div>
        ${this.#body.text === undefined ? nothing : copyButton(this.#body.text, gettext("Copy the body"))}
        ${this.queue ? html`<a href=${bodyAddress(this.queue, this.message.id)} download=${this.message.id}>${gettext("Download")}</a>` : nothing}
      </div>
      ${this.#error ? html`<p class="notice" data-tone="bad" role="alert">${this.#error}</p>` : nothing}
      ${this.#notes()} ${this.#form === "Diff" ? this.#compared() : this.#shown()}
    `;
  }

  #titleOf(form: Form): string {
    if (form === "Pretty") return this.#body.xml ? gettext("XML") : gettext("Pretty");
    if (form === "Diff") return gettext("Diff with…");
    return form === "Hex" ? gettext("Hex") : gettext("Raw");
  }

  #forms(): Form[] {
    const { json, text, xml, form } = this.#body;
    const isPicture = text === undefined && this.#isPicture;
    const pretty: Form[] = json !== undefined || xml || form || isPicture ? ["Pretty"] : [];
    const forms: Form[] = text === undefined ? [...pretty, "Hex"] : [...pretty, "Raw", "Hex"];
    return text !== undefined && this.others?.some(({ id }) => id !== this.message.id) ? [...forms, "Diff"] : forms;
  }

  get #isPicture(): boolean {
    return Boolean(this.queue) && IMAGES.test(this.message.content_type ?? "");
  }

  /** Raw and Hex are the bytes that were sent, so those of parsed JSON are fetched first. */
  async #choose(form: Form): Promise<void> {
    const { message, queue } = this;
    if ((form === "Raw" || form === "Hex") && queue && !this.#body.exact && !this.#compression && !message.truncated) {
      try {
        const bytes = await bytesOf(queue, message.id);
        if (message !== this.message) return;
        this.#body = sniffBytes(bytes, message.content_type);
      } catch (error) {
        this.#error = faultOf(error, gettext("The broker cannot be reached."));
      }
    }
    this.#form = form;
    this.requestUpdate();
  }

  #notes(): TemplateResult | typeof nothing {
    if (this.#compression && !this.#isCut) {
      return html`<p class="notice" data-tone="quiet">
        ${gettext("Decompressed for display ({how}, {size}). Download returns the original bytes.", {
          how: this.#compression,
          size: inBytes(this.message.size),
        })}
      </p>`;
    }
    if (!this.#isCut) return nothing;
    return html`<p class="notice" data-tone="warn">
      ${
        this.#tail
          ? gettext("Only the beginning and the end of {size} are shown. Download returns the whole body.", { size: inBytes(this.message.size) })
          : gettext("Only the beginning of {size} is shown.", { size: inBytes(this.message.size) })
      }
    </p>`;
  }

  #shown(): TemplateResult {
    const { bytes, json, text, form, xml } = this.#body;
    if (bytes.length === 0) return html`<p class="quiet">${gettext("Empty.")}</p>`;
    if (this.#form === "Pretty") {
      if (json !== undefined) return html`${this.#event(json)}<div class="body json">${jsonTree(json)}</div>`;
      if (form) return pairs(form);
      if (!xml) return html`<img class="picture" alt=${gettext("Body as an image")} src=${bodyAddress(this.queue, this.message.id)} />`;
    }
    const head = this.#form === "Hex" ? hexDump(bytes) : this.#form === "Pretty" ? indented(text!) : text;
    return html`${this.#event(undefined)}<pre class="body" data-form=${this.#form} tabindex="0" aria-label=${this.#titleOf(this.#form)}>${head}</pre>
      ${this.#tail ? this.#end(this.#tail) : nothing}`;
  }

  #end(tail: Uint8Array): TemplateResult {
    const left = this.message.size - this.#body.bytes.length - tail.length;
    const shown = this.#form === "Hex" ? hexDump(tail, this.message.size - tail.length) : new TextDecoder().decode(tail);
    return html`<p class="quiet">${gettext("… {size} not shown …", { size: inBytes(Math.max(0, left)) })}</p>
      <pre class="body" data-form=${this.#form} tabindex="0" aria-label=${gettext("End of the body")}>${shown}</pre>`;
  }

  #event(json: unknown): TemplateResult | typeof nothing {
    const attributes = eventOf(this.message.headers, json);
    if (attributes === undefined) return nothing;
    return html`<div class="event"><h4>${gettext("CloudEvent")}</h4>${pairs(attributes)}</div>`;
  }

  #compared(): TemplateResult {
    const others = this.others.filter(({ id }) => id !== this.message.id);
    const choose = (event: Event) => {
      this.#other = others.find(({ id }) => id === (event.target as HTMLSelectElement).value);
      this.requestUpdate();
    };
    const other = this.#other ?? others[0]!;
    const lines = difference(readable(bodyOf(other)), readable(this.#body));
    return html`<label class="inline">${gettext("Compared with")}
        <select @change=${choose}>
          ${others.map(({ id, position }) => html`<option value=${id} ?selected=${id === other.id}>#${position} · ${id}</option>`)}
        </select></label>
      ${lines.every(({ mark }) => mark === "same") ? html`<p class="quiet">${gettext("The bodies are identical.")}</p>` : nothing}
      <pre class="body difference-lines" tabindex="0" aria-label=${gettext("Differences")}>${lines.map(
        ({ mark, text }) =>
          html`<span data-mark=${mark}><span class="mark">${mark === "gone" ? "− " : mark === "new" ? "+ " : "  "}</span>${text}
</span>`,
      )}</pre>`;
  }
}

/** A body as lines; JSON and XML with one per member. */
function readable({ json, text = "", xml, bytes }: Body): string {
  if (json !== undefined) return prettyJson(JSON.stringify(json)) ?? text;
  return xml ? indented(text) : text || hexDump(bytes);
}

function pairs(entries: [name: string, value: string][]): TemplateResult {
  return html`<dl class="pairs">${entries.map(([name, value]) => html`<dt>${name}</dt><dd>${value}</dd>`)}</dl>`;
}

customElements.define("mom-body-view", BodyView);
