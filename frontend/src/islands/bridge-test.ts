import { html, render } from "lit";
import { request, errorText } from "../live/requests.ts";
import { reveal, stepsBy, connectionTestView, type Step, type ConnectionTest } from "../view/connection-test.ts";

/** Wraps the form that tests a bridge's connection: shows the steps without reloading the page. */
export class BridgeTest extends HTMLElement {
  #place: HTMLElement | undefined;
  #testing = false;

  connectedCallback(): void {
    this.addEventListener("submit", this.#submitted, { capture: true });
  }

  disconnectedCallback(): void {
    this.removeEventListener("submit", this.#submitted, { capture: true });
  }

  readonly #submitted = (event: Event): void => {
    event.preventDefault();
    event.stopPropagation();
    const queue = String(new FormData(event.target as HTMLFormElement).get("queue") ?? "").trim();
    if (!this.#testing) void this.#test(queue);
  };

  async #test(queue: string): Promise<void> {
    this.#testing = true;
    if (this.#place === undefined) {
      this.#place = document.createElement("div");
      this.#place.dataset.island = "";
      this.append(this.#place);
    }
    const names = stepsBy(this.getAttribute("protocol") ?? "");
    const draw = (steps: Step[], trial?: ConnectionTest) => render(connectionTestView(names, steps, trial), this.#place!);
    draw([]);
    try {
      const bridge = encodeURIComponent(this.getAttribute("bridge")!);
      const trial = await request<ConnectionTest>("POST", `bridges/${bridge}/test`, queue ? { queue } : {});
      await reveal(trial, (steps) => draw(steps));
      draw(trial.steps, trial);
    } catch (fault) {
      const text = errorText(fault);
      render(html`<p class="notice" data-tone="bad" role="alert">${text}</p>`, this.#place);
    }
    this.#testing = false;
  }
}

customElements.define("mom-bridge-test", BridgeTest);
