import { html, nothing } from "lit";
import { boundKeys, lettersAreKeys } from "../keys.ts";
import { say } from "../say.ts";
import { Island } from "./island.ts";

export class KeyList extends Island {
  /** Shows what can be pressed now. */
  open(): void {
    this.requestUpdate();
    this.querySelector("dialog")!.showModal();
  }

  protected override render() {
    return html`<dialog aria-labelledby="keys-title" closedby="any">
      <h2 id="keys-title">${say("Keys")}</h2>
      <dl class="pairs keys">${boundKeys().map(({ keys, says }) => html`<dt><kbd>${keys.replace("[Shift]+", "").replace("$mod+", "Ctrl ")}</kbd></dt><dd>${says}</dd>`)}</dl>
      ${lettersAreKeys() ? nothing : html`<p class="quiet">${say("Keys without Ctrl are switched off in the settings.")}</p>`}
      <form method="dialog"><button>${say("Close")}</button></form>
    </dialog>`;
  }
}

customElements.define("mom-key-list", KeyList);
