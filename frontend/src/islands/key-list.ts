import { html } from "lit";
import { Island } from "./island.ts";

/** Every key of the page, in the words the dialog shows. */
export const KEYS: [keys: string, deed: string][] = [
  ["/", "Filter"],
  ["j · k", "Next row, previous row"],
  ["Enter", "Open the row"],
  ["p", "Publish a message"],
  ["Esc", "Close the panel"],
  ["t", "Theme: light or dark"],
  ["?", "This list"],
];

export class KeyList extends Island {
  open(): void {
    this.querySelector("dialog")!.showModal();
  }

  protected override render() {
    return html`<dialog aria-labelledby="keys-title" closedby="any">
      <h2 id="keys-title">Keys</h2>
      <dl class="pairs">${KEYS.map(([keys, deed]) => html`<dt><kbd>${keys}</kbd></dt><dd>${deed}</dd>`)}</dl>
      <form method="dialog"><button>Close</button></form>
    </dialog>`;
  }
}
