import { confirmAction } from "../confirm-dialog.ts";

/**
 * Asks for confirmation before a button submits its form: `data-title` and `data-effect` of the button are the texts,
 * `data-typed` is the text to type in production, `data-danger` marks destructive actions. The reason is submitted with
 * the form.
 */
export class ConfirmForm extends HTMLElement {
  connectedCallback(): void {
    this.addEventListener("click", this.#clicked);
  }

  disconnectedCallback(): void {
    this.removeEventListener("click", this.#clicked);
  }

  readonly #clicked = (event: MouseEvent): void => {
    const button = (event.target as Element).closest<HTMLButtonElement>("button[data-title]");
    if (!button?.form) return;
    event.preventDefault();
    void this.#ask(button, button.form);
  };

  async #ask(button: HTMLButtonElement, form: HTMLFormElement): Promise<void> {
    const { title = "", effect = "", typed, danger } = button.dataset;
    const answer = await confirmAction({
      title,
      effect,
      button: button.textContent!.replace("…", "").trim(),
      ...(typed === undefined ? {} : { typed }),
      danger: danger !== undefined,
    });
    if (answer === null) return;
    let reason = form.querySelector<HTMLInputElement>("input[name=reason]");
    if (reason === null) {
      reason = document.createElement("input");
      reason.type = "hidden";
      reason.name = "reason";
      form.append(reason);
    }
    reason.value = answer.reason;
    form.requestSubmit(button);
  }
}

customElements.define("mom-confirm-form", ConfirmForm);
