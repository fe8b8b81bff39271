import { html, nothing, type PropertyValues, type TemplateResult } from "lit";
import type { BrowsedMessage } from "../live/rest.ts";
import type { Draft, Outcome } from "../live/session.ts";
import { bodyOf } from "../view/body.ts";
import { isQueue } from "../view/name.ts";
import { pageOf } from "../pages.ts";
import { Island } from "./island.ts";
import { session, statistics } from "../services.ts";

const CONTENT_TYPES = ["application/json", "text/plain", "application/xml", "text/csv"];
const DEFAULT_PRIORITY = "4";
/** Headers that the form has fields for, or that are the protocol's own. */
const RESERVED = new Set(["destination", "content-type", "content-length", "persistent", "priority", "receipt", "transaction"]);

/** Publishes one message over the page's own session, and says what the broker answered. */
export class PublishForm extends Island {
  static override properties = { destination: {}, template: { attribute: false } };

  declare destination: string;
  declare template: BrowsedMessage | undefined;

  #headers: { key: string; value: string }[] = [];
  #body = "";
  #contentType = "application/json";
  #outcome: { outcome: Outcome; destination: string } | undefined;
  #sending = false;

  protected override willUpdate(changes: PropertyValues<this>): void {
    if (changes.has("destination")) this.#outcome = undefined;
    if (!changes.has("template") || this.template === undefined) return;
    this.#headers = Object.entries(this.template.headers)
      .filter(([key]) => !RESERVED.has(key))
      .map(([key, value]) => ({ key, value }));
    this.#body = bodyOf(this.template).text ?? "";
    this.#contentType = this.template.content_type ?? "";
  }

  protected override render() {
    const { template } = this;
    return html`<form class="publish" @submit=${(event: SubmitEvent) => this.#submit(event)}>
      <label>
        Destination
        <input
          name="destination" required list="destination-names" autocomplete="off" spellcheck="false"
          placeholder="/queue/orders" pattern="/[\\-a-z]+/.+" title="/queue/name or /topic/name"
          .value=${this.destination}
        />
      </label>
      <datalist id="destination-names">
        ${[...statistics.destinations.keys()].map((name) => html`<option value=${name}></option>`)}
      </datalist>
      <label>
        Body
        <textarea
          name="body" rows="7" spellcheck="false"
          .value=${this.#body}
          @input=${(event: InputEvent) => this.#edit({ body: (event.target as HTMLTextAreaElement).value })}
        ></textarea>
      </label>
      ${this.#bodyHint()}
      <div class="fields">
        <label>
          Content type
          <input
            name="content-type" list="content-types" autocomplete="off" spellcheck="false"
            .value=${this.#contentType}
            @input=${(event: InputEvent) => this.#edit({ contentType: (event.target as HTMLInputElement).value })}
          />
        </label>
        <datalist id="content-types">${CONTENT_TYPES.map((type) => html`<option value=${type}></option>`)}</datalist>
        <label>
          Priority
          <input name="priority" type="number" min="0" max="9" .value=${String(template?.priority ?? DEFAULT_PRIORITY)} />
        </label>
        <label class="check">
          <input name="persistent" type="checkbox" .checked=${template?.persistent ?? true} />
          Persistent
        </label>
      </div>
      ${this.#headerGrid()}
      <div class="tools">
        <button type="submit" class="primary" ?disabled=${this.#sending}>Publish</button>
        <span class="quiet">${this.#sending ? "waiting for the receipt…" : html`<kbd>Ctrl</kbd> <kbd>Enter</kbd>`}</span>
      </div>
      <div role="status">${this.#outcome ? this.#answer(this.#outcome) : nothing}</div>
    </form>`;
  }

  protected override firstUpdated(): void {
    this.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) this.querySelector("form")!.requestSubmit();
    });
  }

  #edit({ body = this.#body, contentType = this.#contentType }): void {
    this.#body = body;
    this.#contentType = contentType;
    this.requestUpdate();
  }

  /** Says that a JSON body is none, and sends it all the same when asked: a test may want just that. */
  #bodyHint(): TemplateResult | typeof nothing {
    if (!/[/+]json\b/.test(this.#contentType) || this.#body === "") return nothing;
    try {
      JSON.parse(this.#body);
      return nothing;
    } catch (error) {
      return html`<p class="hint" data-tone="warn">▲ This is not valid JSON: ${(error as Error).message}</p>`;
    }
  }

  #headerGrid(): TemplateResult {
    const remove = (index: number) => {
      this.#headers = this.#headers.filter((_, at) => at !== index);
      this.requestUpdate();
    };
    const add = async () => {
      this.#headers = [...this.#headers, { key: "", value: "" }];
      this.requestUpdate();
      await this.updateComplete;
      this.querySelector<HTMLInputElement>(".header-row:last-of-type input")?.focus();
    };
    return html`<fieldset>
      <legend>Headers</legend>
      ${this.#headers.map(
        (header, index) => html`<div class="header-row">
          <input
            aria-label="Header name" placeholder="name" autocomplete="off" spellcheck="false" .value=${header.key}
            @input=${(event: InputEvent) => (header.key = (event.target as HTMLInputElement).value)}
          />
          <input
            aria-label="Header value" placeholder="value" autocomplete="off" .value=${header.value}
            @input=${(event: InputEvent) => (header.value = (event.target as HTMLInputElement).value)}
          />
          <button type="button" class="close" aria-label="Remove this header" @click=${() => remove(index)}>✕</button>
        </div>`,
      )}
      <button type="button" class="link" @click=${add}>+ Add header</button>
    </fieldset>`;
  }

  async #submit(event: SubmitEvent): Promise<void> {
    event.preventDefault();
    if (this.#sending) return;
    const draft = this.#draft(new FormData(event.target as HTMLFormElement));
    this.#sending = true;
    this.#outcome = undefined;
    this.requestUpdate();
    const outcome = await session.publish(draft);
    this.#sending = false;
    this.#outcome = { outcome, destination: draft.destination };
    this.requestUpdate();
  }

  #draft(form: FormData): Draft {
    const field = (name: string) => String(form.get(name) ?? "");
    const own = this.#headers.filter(({ key }) => key !== "" && !RESERVED.has(key.toLowerCase()));
    const headers: Record<string, string> = Object.fromEntries(own.map(({ key, value }) => [key, value]));
    headers.persistent = String(form.has("persistent"));
    headers.priority = field("priority") || DEFAULT_PRIORITY;
    const contentType = field("content-type").trim();
    if (contentType) headers["content-type"] = contentType;
    return { destination: field("destination"), body: field("body"), headers };
  }

  #answer({ outcome, destination }: { outcome: Outcome; destination: string }): TemplateResult {
    switch (outcome.kind) {
      case "confirmed":
        return html`<div class="notice" data-tone="good">
          <strong>● Confirmed</strong> by a receipt after ${outcome.tookMs.toFixed(1)} ms.
          ${isQueue(destination)
            ? html`<a href=${pageOf(destination)}>See the messages</a>`
            : nothing}
        </div>`;
      case "refused":
        return html`<div class="notice" data-tone="bad">
          <strong>■ ${outcome.problem.title}.</strong> ${outcome.problem.detail}
          ${outcome.problem.trace_id ? html`<code>${outcome.problem.trace_id}</code>` : nothing}
        </div>`;
      case "unconfirmed":
        return html`<div class="notice" data-tone="warn"><strong>▲ Not confirmed.</strong> ${outcome.why}</div>`;
    }
  }
}
customElements.define("mom-publish-form", PublishForm);
