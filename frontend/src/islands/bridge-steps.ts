import "../style/steps.css";
import { html, nothing, render } from "lit";
import { request, errorText } from "../live/requests.ts";
import { morph } from "../morph.ts";
import { BRIDGE_NUMBERS } from "../generated/configuration.ts";
import { gettext } from "../gettext.ts";
import { reveal, stepsBy, connectionTestView, type Step, type ConnectionTest } from "../view/connection-test.ts";

const NUMBERS = new Set<string>(BRIDGE_NUMBERS);

/**
 * The form of a new bridge in steps: name, address, login, test, preview. Only the last step saves. Without JavaScript
 * it is one long form.
 */
export class BridgeSteps extends HTMLElement {
  #at = 0;
  #tools: HTMLElement | undefined;

  connectedCallback(): void {
    if (this.#tools !== undefined) return;
    this.dataset.stepped = "";
    this.#tools = document.createElement("div");
    this.#tools.className = "tools acts";
    this.#form.append(this.#tools);
    this.#form.addEventListener("keydown", (event) => {
      // Enter in a field goes to the next step; it does not save.
      if (event.key !== "Enter" || !(event.target instanceof HTMLInputElement) || this.#isLast) return;
      event.preventDefault();
      void this.#go(this.#at + 1);
    });
    const wrong = this.#steps.findIndex((step) => step.querySelector("[aria-invalid=true], .hint[data-tone=bad]"));
    this.#show(Math.max(wrong, 0));
  }

  get #form(): HTMLFormElement {
    return this.querySelector("form")!;
  }

  get #steps(): HTMLFieldSetElement[] {
    return [...this.querySelectorAll<HTMLFieldSetElement>("fieldset[data-step]")];
  }

  get #isLast(): boolean {
    return this.#at === this.#steps.length - 1;
  }

  async #go(to: number): Promise<void> {
    const steps = this.#steps;
    for (const step of steps.slice(0, to)) {
      const wrong = [...step.querySelectorAll<HTMLInputElement>("input, select, textarea")].find((field) => !field.checkValidity());
      if (wrong === undefined) continue;
      this.#show(steps.indexOf(step));
      wrong.reportValidity();
      return;
    }
    this.#show(to);
    if (steps[to]!.dataset.step === "test") await this.#test();
    if (this.#isLast) await this.#preview();
  }

  #show(at: number): void {
    this.#at = at;
    const steps = this.#steps;
    for (const [number, step] of steps.entries()) step.hidden = number !== at;
    this.#draw();
    const fields = steps[at]!.querySelector<HTMLElement>(":scope > .field :is(input, select, textarea)");
    (fields ?? steps[at]!.querySelector<HTMLElement>("legend"))?.focus({ preventScroll: true });
  }

  #draw(): void {
    const steps = this.#steps;
    const line = this.querySelector<HTMLElement>(".stages")!;
    render(
      html`${steps.map(
        (step, at) => html`<li class=${at < this.#at ? "done" : ""} aria-current=${at === this.#at ? "step" : nothing}>
          <button type="button" class="plain" @click=${() => void this.#go(at)}>${step.dataset.title}</button>
        </li>`,
      )}`,
      line,
    );
    render(
      html`${this.#at > 0 ? html`<button type="button" @click=${() => this.#show(this.#at - 1)}>${gettext("Back")}</button>` : nothing}
      ${
        this.#isLast
          ? html`<button class="primary" name="operation" value="save">${gettext("Save")}</button>`
          : html`<button type="button" class="primary" @click=${() => void this.#go(this.#at + 1)}>${gettext("Next")}</button>`
      }
      ${steps[this.#at]!.dataset.step === "test" ? html`<button type="button" @click=${() => void this.#test()}>${gettext("Test again")}</button>` : nothing}`,
      this.#tools!,
    );
  }

  /** Test the connection of the form; nothing is saved. */
  async #test(): Promise<void> {
    const place = this.querySelector<HTMLElement>(".trial-place")!;
    const values = this.#values();
    const names = stepsBy(String(values.protocol));
    const draw = (steps: Step[], trial?: ConnectionTest) => render(connectionTestView(names, steps, trial), place);
    draw([]);
    try {
      const trial = await request<ConnectionTest>("POST", "forwarding/test", values);
      await reveal(trial, (steps) => draw(steps));
      draw(trial.steps, trial);
    } catch (fault) {
      const text = errorText(fault);
      render(html`<p class="notice" data-tone="bad" role="alert">${text}</p>`, place);
    }
  }

  /** The values of the form for the API, without empty ones. */
  #values(): Record<string, unknown> {
    const values: Record<string, unknown> = {};
    for (const [name, value] of new FormData(this.#form)) {
      const text = String(value);
      if (text === "" || ["csrfmiddlewaretoken", "version", "reason", "operation", "initial-version"].includes(name)) continue;
      if (name === "paused_queues")
        values[name] = text
          .split("\n")
          .map((line) => line.trim())
          .filter(Boolean);
      else values[name] = NUMBERS.has(name) ? Number(text) : text;
    }
    return values;
  }

  /** Show the server's preview; errors lead back to their field. */
  async #preview(): Promise<void> {
    const place = this.querySelector<HTMLElement>(".preview-place")!;
    place.textContent = gettext("Checking the effect…");
    const form = new FormData(this.#form);
    form.set("operation", "preview");
    try {
      const reply = await fetch(this.#form.action, { method: "POST", body: form });
      const page = new DOMParser().parseFromString(await reply.text(), "text/html");
      const steps = [...page.querySelectorAll<HTMLFieldSetElement>("fieldset[data-step]")];
      const wrong = steps.findIndex((step) => step.querySelector(".hint[data-tone=bad]"));
      for (const step of this.#steps) {
        const now = steps.find((other) => other.dataset.step === step.dataset.step);
        if (now !== undefined && step.dataset.step !== "test" && step.dataset.step !== "save") morph(step, now);
      }
      for (const [number, step] of this.#steps.entries()) step.hidden = number !== this.#at;
      if (wrong >= 0) return this.#show(wrong);
      place.replaceChildren(...page.querySelectorAll("form > .notice, .preview-place > *"));
    } catch (fault) {
      place.textContent = errorText(fault);
    }
  }
}

customElements.define("mom-bridge-steps", BridgeSteps);
