import { html } from "lit";
import { queueNames } from "../messages/requests.ts";
import { Island } from "./island.ts";

const PAUSE_MS = 150;
let made = 0;

/** A field for the name of a queue, with those that there are to choose from. The input is part of the form around it. */
export class QueueName extends Island {
  static override properties = { name: {}, value: {}, label: {}, optional: { type: Boolean } };

  declare name: string;
  declare value: string;
  declare label: string;
  declare optional: boolean;

  #known: string[] = [];
  #timer: ReturnType<typeof setTimeout> | undefined;
  readonly #list = `queues-${++made}`;

  override connectedCallback(): void {
    super.connectedCallback();
    void this.#look("");
  }

  protected override render() {
    return html`<label>${this.label}
      <input
        name=${this.name} list=${this.#list} ?required=${!this.optional} autocomplete="off" spellcheck="false" maxlength="255"
        .value=${this.value ?? ""}
        @input=${(event: InputEvent) => this.#typed((event.target as HTMLInputElement).value)}
      /></label>
      <datalist id=${this.#list}>${this.#known.map((name) => html`<option value=${name}></option>`)}</datalist>`;
  }

  #typed(text: string): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => void this.#look(text.trim()), PAUSE_MS);
  }

  async #look(part: string): Promise<void> {
    // Without suggestions, a name can still be typed.
    this.#known = await queueNames(part).catch(() => this.#known);
    this.requestUpdate();
  }
}

customElements.define("mom-queue-name", QueueName);
