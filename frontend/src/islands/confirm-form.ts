import { confirmAction } from "../confirm-dialog.ts";

/**
 * Asks before a form is sent by one of its buttons: `data-title` and `data-effect` of the button say what and what
 * follows, `data-typed` what is typed in production, `data-danger` that it destroys. The reason goes with the form.
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
      act: button.textContent!.replace("…", "").trim(),
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
