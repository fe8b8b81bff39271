/** The actions on destinations: for the selection below the list, and in the menu of a row. */

import { html, nothing, type TemplateResult } from "lit";
import { gettext, ngettext } from "../gettext.ts";
import { pageOf } from "../pages.ts";
import { count } from "../view/format.ts";
import { LABELS, actionsOf, missingRight, type Action } from "./actions.ts";
import type { Kind } from "./address.ts";
import type { Row } from "./rows.ts";

export interface BarParts {
  kind: Kind;
  /** The number of selected rows, of `total` that match; and whether these are all of them. */
  number: number;
  total: number;
  all: boolean;
  progress: string | null;
  button: (action: Action) => TemplateResult;
  /** Selects everything, or nothing. */
  choose: (everything: boolean) => void;
}

/** The actions for the selection. */
export function actionBar({ kind, number, total, all, progress, button, choose }: BarParts): TemplateResult | typeof nothing {
  if (number === 0) return progress ? html`<div class="bulk tools" role="status">${progress}</div>` : nothing;
  const more = !all && total > number;
  return html`<div class="bulk tools" role="group" aria-label=${gettext("Selection")}>
    <b role="status">${ngettext("{count} selected", "{count} selected", number)}</b>
    ${more ? html`<span class="quiet">${gettext("of {all} matching", { all: count(total) })}</span>` : nothing} ${actionsOf(kind).map(button)}
    ${more ? html`<button type="button" class="link" @click=${() => choose(true)}>${gettext("Select all {all}", { all: count(total) })}</button>` : nothing}
    <button type="button" class="link" @click=${() => choose(false)}>${gettext("Clear selection")}</button>
    ${progress ? html`<span role="status">${progress}</span>` : nothing}
  </div>`;
}

export function actionButton(action: Action, isAdministrator: boolean, act: () => void): TemplateResult {
  const missing = missingRight(action, isAdministrator);
  const tone = action === "purge" || action === "delete" ? "bad" : nothing;
  return html`<button type="button" data-tone=${tone} ?disabled=${missing !== ""} title=${missing || nothing} @click=${act}>${LABELS[action]}</button>`;
}

/** The menu of a row; empty without one. */
export function rowMenu(row: Row | undefined, button: (action: Action) => TemplateResult): TemplateResult {
  const paused = row?.figures.paused !== "none";
  return html`<div id="row-menu" class="menu-items" popover>
    ${
      row === undefined
        ? nothing
        : html`<a href=${pageOf(row.address)}>${gettext("Open")}</a>
          <a href=${pageOf(row.address, "publish")}>${gettext("Publish")}</a>
          <hr />
          ${actionsOf(row.kind)
            .filter((action) => action !== (paused ? "pause" : "resume"))
            .map(button)}`
    }
  </div>`;
}
