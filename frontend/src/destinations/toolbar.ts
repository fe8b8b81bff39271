/** The toolbar above a list of destinations: filters, columns, and rows per page. */

import { html, type TemplateResult } from "lit";
import type { DestinationState } from "../generated/tables.ts";
import { gettext, ngettext } from "../gettext.ts";
import type { Change } from "../page-address.ts";
import { pageAddress } from "../services.ts";
import { count } from "../view/format.ts";
import { iconView } from "../view/icon.ts";
import { signIn } from "../view/sign.ts";
import { DESTINATION_STATE } from "../generated/signs/destination-state.ts";
import type { Kind } from "./address.ts";
import { columnsOf } from "./columns.ts";
import { CHOICES_OF_ROWS, ROWS, type Listing } from "./listing.ts";

/** States that topics have, too. */
const STATES_OF_TOPICS: DestinationState[] = ["paused", "flowing", "idle"];

export interface ToolbarParts {
  kind: Kind;
  listing: Listing;
  /** The number of destinations that match. */
  total: number;
  /** Called with the text of the filter after each input. */
  type: (text: string) => void;
  go: (change: Change) => void;
  /** What follows the number, and the last button. */
  offer: unknown;
  create: TemplateResult;
}

export function toolbar({ kind, listing, total, type, go, offer, create }: ToolbarParts): TemplateResult {
  return html`<div class="toolbar" role="search">
    <label class="filter">${iconView("search")}
      <input
        type="search"
        aria-label=${gettext("Filter by name: words or a pattern with *")}
        placeholder=${gettext("filter: words or orders.*")}
        autocomplete="off"
        spellcheck="false"
        .value=${pageAddress.get("filter")}
        @input=${(event: InputEvent) => type((event.target as HTMLInputElement).value)}
      />
    </label>
    <select aria-label=${gettext("State")} @change=${(event: Event) => go({ state: (event.target as HTMLSelectElement).value })}>
      ${options(stateChoices(kind, pageAddress.get("state")), pageAddress.get("state"))}
    </select>
    <select aria-label=${gettext("Consumers")} @change=${(event: Event) => go({ consumed: (event.target as HTMLSelectElement).value })}>
      ${options(
        [
          ["", gettext("with or without consumers")],
          ["true", gettext("with consumers")],
          ["false", gettext("without consumers")],
        ],
        pageAddress.get("consumed"),
      )}
    </select>
    <span class="quiet" role="status">${found(kind, total, listing.isFiltered)}</span>
    ${offer}
    <span class="spring"></span>
    ${columnChooser(kind, listing, go)} ${create}
  </div>`;
}

type Choice = [value: string, word: string];

function options(choices: Choice[], chosen: string): TemplateResult[] {
  return choices.map(([value, word]) => html`<option value=${value} ?selected=${value === chosen}>${word}</option>`);
}

/** Any state, the several states of an address, and each one. */
export function stateChoices(kind: Kind, chosen: string): Choice[] {
  const words = chosen.split(",").map((state) => signIn(DESTINATION_STATE, state as DestinationState).word);
  const several: Choice[] = words.length > 1 ? [[chosen, words.join(", ")]] : [];
  const states = Object.entries(DESTINATION_STATE).filter(([state]) => kind === "queue" || (STATES_OF_TOPICS as string[]).includes(state));
  return [["", gettext("any state")], ...several, ...states.map(([state, { word }]): Choice => [state, word])];
}

function found(kind: Kind, total: number, isFiltered: boolean): string {
  if (isFiltered) return ngettext("{count} matches", "{count} match", total);
  return kind === "queue" ? ngettext("{count} queue", "{count} queues", total) : ngettext("{count} topic", "{count} topics", total);
}

function columnChooser(kind: Kind, { columns, rows }: Listing, go: (change: Change) => void): TemplateResult {
  const all = columnsOf(kind);
  const shown = new Set(columns.map(({ key }) => key));
  const turn = (key: string) => {
    if (!shown.delete(key)) shown.add(key);
    const keys = all.map((each) => each.key).filter((each) => shown.has(each));
    const visibleByDefault = all.filter((each) => each.visibleByDefault).map((each) => each.key);
    pageAddress.go({ columns: keys.join() === visibleByDefault.join() ? null : keys.join(",") }, { replace: true });
  };
  return html`<button type="button" popovertarget="columns">${gettext("Columns")}</button>
    <div id="columns" class="menu-items choices-of-columns" popover>
      ${all.map(({ key, label }) => html`<label class="check"><input type="checkbox" .checked=${shown.has(key)} @change=${() => turn(key)} />${label}</label>`)}
      <label>${gettext("Rows per page")}
        <select @change=${(event: Event) => go({ rows: (event.target as HTMLSelectElement).value })}>
          ${CHOICES_OF_ROWS.map((number) => html`<option value=${number === ROWS ? "" : number} ?selected=${number === rows}>${count(number)}</option>`)}
        </select>
      </label>
    </div>`;
}
