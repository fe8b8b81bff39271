/** The list of all keys that can be pressed on this page. */

import { html, nothing, render } from "lit";
import { boundKeys, lettersAreKeys } from "./keys.ts";
import { say } from "./say.ts";

const WORDS: [key: string, word: string][] = [["[Shift]+", ""], ["$mod+", "Ctrl "]];

/** Shows it until it is closed; the focus goes back to where it was. */
export function showKeys(): void {
  const origin = document.activeElement as HTMLElement | null;
  const dialog = document.createElement("dialog");
  dialog.setAttribute("aria-labelledby", "keys-title");
  dialog.setAttribute("closedby", "any");
  dialog.addEventListener("close", () => {
    dialog.remove();
    origin?.focus();
  });
  render(
    html`<h2 id="keys-title">${say("Keyboard shortcuts")}</h2>
      <dl class="pairs keys">${boundKeys().map(({ keys, says }) => html`<dt><kbd>${inWords(keys)}</kbd></dt><dd>${says}</dd>`)}</dl>
      ${lettersAreKeys() ? nothing : html`<p class="quiet">${say("Single-letter shortcuts are switched off in My settings.")}</p>`}
      <form method="dialog"><button>${say("Close")}</button></form>`,
    dialog,
  );
  document.body.append(dialog);
  dialog.showModal();
}

function inWords(keys: string): string {
  return WORDS.reduce((text, [key, word]) => text.replace(key, word), keys);
}
