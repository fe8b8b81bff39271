import { html, type TemplateResult } from "lit";
import { gettext } from "../gettext.ts";

const SHOWN_MS = 1500;

/** Copies `text` and label so in its own place. Without the clipboard's permission it label that instead. */
export function copyButton(text: string, label: string): TemplateResult {
  return html`<button type="button" class="link copy" aria-label=${label} @click=${(event: Event) => copy(event, text)}>
    <span aria-live="polite">${gettext("Copy")}</span>
  </button>`;
}

async function copy(event: Event, text: string): Promise<void> {
  const label = (event.currentTarget as HTMLElement).querySelector("span")!;
  try {
    await navigator.clipboard.writeText(text);
    label.textContent = gettext("Copied");
  } catch {
    label.textContent = gettext("The browser does not allow copying");
  }
  setTimeout(() => (label.textContent = gettext("Copy")), SHOWN_MS);
}
