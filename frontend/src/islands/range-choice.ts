import { html } from "lit";
import { gettext } from "../gettext.ts";
import { RANGES, chooseRange, chosenRange, type Range } from "../view/range.ts";
import { Island } from "./island.ts";

/** Chooses how far back the charts of the page reach. Sends `range` (a bubbling event) when that changed. */
export class RangeChoice extends Island {
  protected override render() {
    const chosen = chosenRange();
    return html`<div class="segments" role="group" aria-label=${gettext("Time range")}>
      ${(Object.keys(RANGES) as Range[]).map(
        (range) => html`<button type="button" aria-pressed=${range === chosen} @click=${() => this.#choose(range)}>
          ${range}
        </button>`,
      )}
    </div>`;
  }

  #choose(range: Range): void {
    chooseRange(range);
    this.requestUpdate();
    this.dispatchEvent(new CustomEvent("range", { bubbles: true }));
  }
}

customElements.define("mom-range-choice", RangeChoice);
