/** The list of all keyboard shortcuts of this page. */

import { html, nothing, render } from "lit";
import { boundShortcuts, singleKeysEnabled } from "./shortcuts.ts";
import { gettext } from "./gettext.ts";

const WORDS: [key: string, word: string][] = [
  ["[Shift]+", ""],
  ["$mod+", "Ctrl "],
];

/** Show the list until it is closed; the focus returns to where it was. */
export function showShortcuts(): void {
  const origin = document.activeElement as HTMLElement | null;
  const dialog = document.createElement("dialog");
  dialog.setAttribute("aria-labelledby", "keys-title");
  dialog.setAttribute("closedby", "any");
  dialog.addEventListener("close", () => {
    dialog.remove();
    origin?.focus();
  });
  render(
    html`<h2 id="keys-title">${gettext("Keyboard shortcuts")}</h2>
      <dl class="pairs keys">${boundShortcuts().map(({ keys, label }) => html`<dt><kbd>${keyText(keys)}</kbd></dt><dd>${label}</dd>`)}</dl>
      ${singleKeysEnabled() ? nothing : html`<p class="quiet">${gettext("Single-letter shortcuts are switched off in Settings.")}</p>`}
      <form method="dialog"><button>${gettext("Close")}</button></form>`,
    dialog,
  );
  document.body.append(dialog);
  dialog.showModal();
}

function keyText(keys: string): string {
  return WORDS.reduce((text, [key, word]) => text.replace(key, word), keys);
}
