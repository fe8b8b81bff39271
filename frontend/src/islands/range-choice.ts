import { html } from "lit";
import { gettext } from "../gettext.ts";
import { IN_MEMORY, chooseRange, chosenRange, type Range } from "../view/range.ts";
import { Island } from "./island.ts";

/**
 * Chooses how far back the charts of the page reach: one of `ranges`, which is what is in memory if it is not set. Sends
 * `range` (a bubbling event) when that changed.
 */
export class RangeChoice extends Island {
  static override properties = { ranges: { attribute: false } };

  declare ranges: readonly Range[];

  constructor() {
    super();
    this.ranges = IN_MEMORY;
  }

  protected override render() {
    const chosen = chosenRange(this.ranges);
    return html`<div class="segments" role="group" aria-label=${gettext("Time range")}>
      ${this.ranges.map(
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
