import { html, nothing, type TemplateResult } from "lit";
import type { RequestRefused } from "../live/rest.ts";
import { publishAsCode } from "../messages/code.ts";
import { EMPTY, draftOf, ownHeaders, type Content, type Draft } from "../messages/draft.ts";
import { LARGEST, MOST, complaintOf, hasFields, send, type Sent } from "../messages/publish-request.ts";
import { headerFields, type Header } from "../messages/header-fields.ts";
import { publishResult, type PublishResult } from "../messages/publish-result.ts";
import { body as bytesOf, faultOf, one, remove, why } from "../messages/requests.ts";
import { DEFAULT_PRIORITY, MAX_DELAY_S, MAX_EXPIRES_S } from "../generated/messages.ts";
import { gettext } from "../gettext.ts";
import { pageAddress, server } from "../services.ts";
import "../style/messages.css";
import { sniffBytes } from "../view/body.ts";
import { bytes as inBytes } from "../view/format.ts";
import { bareName, isQueue } from "../view/name.ts";
import { Island } from "./island.ts";
import { snippetBlock } from "./snippet-block.ts";
import { iconView } from "../view/icon.ts";
import { hintOf, refusal } from "../view/refusal.ts";

const CONTENT_TYPES = ["application/json", "text/plain", "application/xml", "text/csv", "application/octet-stream"];
/**
 * Publishes one or many messages, and shows the response. `template` in the address is the id of a message of the queue
 * `from` that fills in body and headers; with `replace` that message is removed when the new one is stored.
 */
export class PublishForm extends Island {
  static override properties = { destination: {} };

  /** With its kind: /queue/orders. */
  declare destination: string;

  #headers: Header[] = [];
  #draft: Content = { ...EMPTY };
  #file: { name: string; bytes: Uint8Array } | undefined;
  #over = false;
  #error = "";
  #result: PublishResult | undefined;
  #running: AbortController | undefined;

  override connectedCallback(): void {
    super.connectedCallback();
    void this.#fillIn();
  }

  override disconnectedCallback(): void {
    super.disconnectedCallback();
    this.#running?.abort();
  }

  protected override firstUpdated(): void {
    this.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) this.querySelector("form")!.requestSubmit();
    });
  }

  async #fillIn(): Promise<void> {
    const [queue, id] = [pageAddress.get("from"), pageAddress.get("template")];
    if (!queue || !id) return;
    try {
      const message = await one(queue, id);
      this.#headers = Object.entries(ownHeaders(message.headers)).map(([key, value]) => ({ key, value }));
      this.#draft = draftOf(message);
      this.#takeBytes(`${id}`, await bytesOf(queue, id));
    } catch (error) {
      this.#error = faultOf(error, gettext("The broker cannot be reached."));
    }
    this.requestUpdate();
  }

  /** Text files are loaded into the field for editing; others are sent unchanged. */
  #takeBytes(name: string, bytes: Uint8Array): void {
    const { text } = sniffBytes(bytes, null);
    this.#file = text === undefined ? { name, bytes } : undefined;
    this.#draft.body = text ?? "";
  }

  async #takeFile(file: File | undefined): Promise<void> {
    if (file === undefined) return;
    if (file.size > LARGEST) {
      this.#error = gettext("{name} has {size}. Files of up to {most} can be sent from here; use mom pub for larger ones.", {
        name: file.name,
        size: inBytes(file.size),
        most: inBytes(LARGEST),
      });
    } else {
      this.#error = "";
      this.#takeBytes(file.name, new Uint8Array(await file.arrayBuffer()));
      if (file.type) this.#draft.contentType = file.type;
    }
    this.requestUpdate();
  }

  // ------------------------------------------------------------------ the form

  protected override render() {
    return html`<form class="publish" data-island @submit=${(event: SubmitEvent) => this.#submit(event)}>
      ${this.#error ? html`<p class="notice" data-tone="bad" role="alert">${this.#error}</p>` : nothing}
      <label>${gettext("Destination")}
        <input
          name="destination" required autocomplete="off" spellcheck="false" placeholder="/queue/orders" pattern="/(queue|topic|temp-queue)/.+"
          title="/queue/…, /topic/…" .value=${this.destination}
          @change=${(event: Event) => (this.destination = (event.target as HTMLInputElement).value)}
        /></label>
      ${this.#bodyField()}
      <div class="fields">
        ${this.#text("content-type", gettext("Content type"), this.#draft.contentType, (value) => (this.#draft.contentType = value), "content-types")}
        <datalist id="content-types">${CONTENT_TYPES.map((type) => html`<option value=${type}></option>`)}</datalist>
        ${this.#number("priority", gettext("Priority"), this.#draft.priority, (value) => (this.#draft.priority = value ?? DEFAULT_PRIORITY), 0, 9)}
        <label class="check"
          ><input
            name="persistent" type="checkbox" .checked=${this.#draft.persistent}
            @change=${(event: Event) => this.#edit(() => (this.#draft.persistent = (event.target as HTMLInputElement).checked))}
          />${gettext("Persistent")}</label>
      </div>
      ${this.#headerGrid()} ${this.#more()} ${this.#sends()}
      <div role="status">${this.#result ? publishResult(this.#result, this.destination) : nothing}</div>
      ${this.#code()}
    </form>`;
  }

  #bodyField(): TemplateResult {
    const complaint = this.#file ? "" : complaintOf(this.#draft.body, this.#draft.contentType);
    const over = (on: boolean) => (event: DragEvent) => {
      event.preventDefault();
      this.#over = on;
      this.requestUpdate();
    };
    const drop = (event: DragEvent) => {
      over(false)(event);
      void this.#takeFile(event.dataTransfer?.files[0]);
    };
    const forget = () => {
      this.#file = undefined;
      this.requestUpdate();
    };
    return html`${
      this.#file
        ? html`<p class="notice" data-tone="quiet">
            ${gettext("The body is the file {name} ({size}), sent unchanged.", { name: this.#file.name, size: inBytes(this.#file.bytes.length) })}
            <button type="button" class="link" @click=${forget}>${gettext("Write a body instead")}</button>
          </p>`
        : html`<label>${gettext("Body")}
            <textarea
              name="body" rows="9" spellcheck="false" data-over=${this.#over} .value=${this.#draft.body}
              @input=${(event: InputEvent) => this.#edit(() => (this.#draft.body = (event.target as HTMLTextAreaElement).value))}
              @dragover=${over(true)} @dragleave=${over(false)} @drop=${drop}
            ></textarea></label>`
    }
      ${complaint ? html`<p class="hint" data-tone="warn">${iconView("triangle-alert")} ${complaint}</p>` : nothing}
      <p class="hint tools">
        <label class="picks">${gettext("Choose a file, or drop one")}
          <input class="visually-hidden" type="file" name="file" @change=${(event: Event) => void this.#takeFile((event.target as HTMLInputElement).files?.[0])} /></label>
        <span>${gettext("{{n}}, {{uuid}} and {{now}} are filled in for each message.")}</span>
      </p>`;
  }

  #edit(change: () => void): void {
    change();
    this.requestUpdate();
  }

  #text(name: string, label: string, value: string, take: (value: string) => void, list = ""): TemplateResult {
    return html`<label>${label}
      <input
        name=${name} autocomplete="off" spellcheck="false" list=${list || nothing} .value=${value}
        @input=${(event: InputEvent) => this.#edit(() => take((event.target as HTMLInputElement).value.trim()))}
      /></label>`;
  }

  #number(
    name: string,
    label: string,
    value: number | undefined,
    take: (value: number | undefined) => void,
    min: number,
    max: number,
    step = "1",
  ): TemplateResult {
    const read = (event: InputEvent) => {
      const { value: text } = event.target as HTMLInputElement;
      this.#edit(() => take(text === "" ? undefined : Number(text)));
    };
    return html`<label>${label}
      <input name=${name} type="number" min=${min} max=${max} step=${step} .value=${value === undefined ? "" : String(value)} @input=${read} /></label>`;
  }

  /** Rarely used fields, collapsed. */
  #more(): TemplateResult {
    const draft = this.#draft;
    const used = draft.delay_s || draft.expires_s || draft.reply_to || draft.correlation_id || draft.type || draft.dedup_id;
    return html`<details ?open=${Boolean(used)}>
      <summary>${gettext("Delay, expiry, reply, deduplication")}</summary>
      <div class="fields">
        ${this.#number("delay", gettext("Delay, seconds"), draft.delay_s, (value) => (draft.delay_s = value!), 0, MAX_DELAY_S, "any")}
        ${this.#number("expires", gettext("Expiry, seconds"), draft.expires_s, (value) => (draft.expires_s = value!), 0.001, MAX_EXPIRES_S, "any")}
        ${this.#text("reply-to", gettext("Reply to"), draft.reply_to ?? "", (value) => (draft.reply_to = value))}
        ${this.#text("correlation-id", gettext("Correlation id"), draft.correlation_id ?? "", (value) => (draft.correlation_id = value))}
        ${this.#text("type", gettext("Type"), draft.type ?? "", (value) => (draft.type = value))}
        ${this.#text("dedup-id", gettext("Dedup id"), draft.dedup_id ?? "", (value) => (draft.dedup_id = value))}
      </div>
    </details>`;
  }

  #headerGrid(): TemplateResult {
    const change = async (headers: Header[], added: boolean) => {
      this.#edit(() => {
        this.#headers = headers;
      });
      if (!added) return;
      await this.updateComplete;
      this.querySelector<HTMLInputElement>(".header-row:last-of-type input")?.focus();
    };
    return headerFields(this.#headers, (headers, added = false) => void change(headers, added));
  }

  #sends(): TemplateResult {
    const replaces = pageAddress.get("replace") !== "" && pageAddress.get("template") !== "";
    return html`${
      replaces
        ? html`<label class="check"
            ><input name="replace" type="checkbox" checked />${gettext("Remove the original message from {queue} when the new one is stored", { queue: pageAddress.get("from") })}</label>`
        : nothing
    }
      <div class="sends">
        <label>${gettext("Number of messages")}<input name="count" type="number" min="1" max=${MOST} value="1" required /></label>
        <label>${gettext("Messages per second")}<input name="rate" type="number" min="0.1" max="10000" step="any" placeholder=${gettext("at once")} /></label>
        ${
          this.#running
            ? html`<button type="button" @click=${() => this.#running?.abort()}>${gettext("Stop")}</button>`
            : html`<button type="submit" class="primary" ?disabled=${refusal() !== undefined} title=${hintOf()}>${gettext("Publish")}</button>`
        }
        <span class="quiet"><kbd>Ctrl</kbd> <kbd>Enter</kbd></span>
      </div>`;
  }

  #code(): TemplateResult {
    return html`<details>
      <summary>${gettext("The same as code")}</summary>
      ${
        this.#file
          ? html`<p class="hint">${gettext("To send the file: mom pub … @{name}", { name: this.#file.name })}</p>`
          : publishAsCode(this.#whole(), server).map(snippetBlock)
      }
    </details>`;
  }

  #whole(): Draft {
    const headers = Object.fromEntries(this.#headers.map(({ key, value }) => [key, value]));
    return { ...this.#draft, destination: this.destination, headers: ownHeaders(headers) };
  }

  // ------------------------------------------------------------------ sending

  async #submit(event: SubmitEvent): Promise<void> {
    event.preventDefault();
    if (this.#running) return;
    const form = new FormData(event.target as HTMLFormElement);
    this.destination = String(form.get("destination"));
    const draft = this.#whole();
    const rate = Number(form.get("rate")) || undefined;
    const fill = hasFields(draft.body + draft.dedup_id + draft.correlation_id + JSON.stringify(draft.headers));
    const run = { draft, bytes: this.#file?.bytes, count: Number(form.get("count")), rate, fill };
    this.#running = new AbortController();
    const began = performance.now();
    const sent: Sent = { ids: [], errors: [], duplicates: 0 };
    this.#result = { sent, tookMs: 0, running: true, status: "", error: "" };
    const show = (change: Partial<PublishResult>) => {
      this.#result = { ...this.#result!, ...change, tookMs: performance.now() - began };
      this.requestUpdate();
    };
    show({});
    try {
      const done = await send(run, (so_far) => show({ sent: so_far }), this.#running.signal);
      show({ sent: done, running: false });
      if (done.ids.length > 0 && form.has("replace")) await remove(pageAddress.get("from"), pageAddress.get("template"));
      if (done.ids.length === 1 && isQueue(draft.destination)) show({ status: await this.#fateOf(draft.destination, done.ids[0]!) });
    } catch (error) {
      const title = (error as Partial<RequestRefused>).problem?.title;
      const detail = faultOf(error, gettext("The broker cannot be reached. The message may or may not have been stored."));
      show({ running: false, error: title ? `${title}: ${detail}` : detail });
    }
    this.#running = undefined;
    this.requestUpdate();
  }

  /** Its consumer, or why it waits. */
  async #fateOf(destination: string, id: string): Promise<string> {
    const reasons = await why(bareName(destination), id).catch(() => undefined);
    return reasons === undefined ? gettext("A consumer has already received it.") : (reasons[0]?.sentence ?? "");
  }
}

customElements.define("mom-publish-form", PublishForm);
