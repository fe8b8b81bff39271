import { startEditor, type Editor } from "../editor/editor.ts";
import { completionOf, highlightingOf } from "../editor/languages.ts";
import { diagnosticsOn } from "../editor/diagnostics.ts";

/**
 * A code editor with line numbers, completion and error marks. It wraps a textarea, which works without it and is kept
 * up to date, so forms are submitted as usual. The editor lives in a shadow root: its adopted style sheet is allowed by
 * a strict CSP, and styles do not interfere.
 */
class CodeEditor extends HTMLElement {
  #editor: Editor | undefined;
  readonly #mark = () => this.#editor?.show(diagnosticsOn(document, this.#field.name));

  connectedCallback(): void {
    this.dataset.island = "";
    const field = this.#field;
    const language = this.getAttribute("language") ?? "";
    this.#editor ??= startEditor(this.shadowRoot ?? this.attachShadow({ mode: "open", delegatesFocus: true }), {
      text: field.value,
      label: this.#takeLabel(),
      readOnly: field.matches(":disabled"),
      lines: field.rows,
      numbered: language === "conditions" || language === "yaml",
      highlighting: highlightingOf(language),
      complete: completionOf(language),
      changed: (text) => {
        field.value = text;
        field.dispatchEvent(new Event("input", { bubbles: true }));
      },
    });
    document.addEventListener("htmx:after:swap", this.#mark);
    this.#mark();
  }

  disconnectedCallback(): void {
    document.removeEventListener("htmx:after:swap", this.#mark);
  }

  get #field(): HTMLTextAreaElement {
    return this.querySelector("textarea")!;
  }

  /** The label leads to the editor from now on, for the textarea is no longer to be seen. */
  #takeLabel(): string {
    const [label] = this.#field.labels;
    if (label === undefined) return this.#field.getAttribute("aria-label") ?? "";
    label.removeAttribute("for");
    label.addEventListener("click", () => this.#editor?.focus());
    return label.textContent.trim();
  }
}

customElements.define("mom-code-editor", CodeEditor);
