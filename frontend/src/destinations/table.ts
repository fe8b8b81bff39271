/** The table of a list of destinations; its rows render themselves. */

import { html, nothing, type TemplateResult } from "lit";
import { gettext } from "../gettext.ts";
import type { Change } from "../page-address.ts";
import { pageAddress } from "../services.ts";
import type { Kind } from "./address.ts";
import type { Column } from "./columns.ts";
import { directionOf, nextSort } from "./order.ts";

type Heading = Pick<Column, "key" | "label" | "hint" | "field" | "sorts" | "cellType">;

export interface TableParts {
  kind: Kind;
  columns: Column[];
  body: HTMLElement;
  /** Whether the rows are older than they should be. */
  isOld: boolean;
  isAllChosen: boolean;
  chooseAll: (chosen: boolean) => void;
  go: (change: Change) => void;
}

export function table({ kind, columns, body, isOld, isAllChosen, chooseAll, go }: TableParts): TemplateResult {
  const name: Heading = { key: "name", label: gettext("name"), field: "name", sorts: true, cellType: "state" };
  return html`<table class="table destinations" data-old=${isOld ? "true" : nothing} data-columns=${columns.length}>
    <caption class="visually-hidden">
      ${kind === "queue" ? gettext("Queues, updated every second") : gettext("Topics, updated every second")}
    </caption>
    <thead>
      <tr>
        <th class="pick" scope="col">
          <input type="checkbox" aria-label=${gettext("Select all on this page")} .checked=${isAllChosen} @change=${() => chooseAll(!isAllChosen)} />
        </th>
        ${[name, ...columns].map((each) => heading(each, go))}
        <th class="col-acts" scope="col"><span class="visually-hidden">${gettext("Actions")}</span></th>
      </tr>
    </thead>
    ${body}
  </table>`;
}

function heading({ key, label, hint, field, sorts, cellType }: Heading, go: (change: Change) => void): TemplateResult {
  const style = `col-${key} ${cellType === "text" ? "num" : ""}`;
  if (!sorts) return html`<th scope="col" class=${style} title=${hint ?? nothing}>${label}</th>`;
  const sort = pageAddress.get("sort");
  const next = nextSort(field, cellType === "text" || cellType === "limit", sort);
  return html`<th scope="col" class=${style} title=${hint ?? nothing} aria-sort=${directionOf(field, sort) ?? nothing}>
    <button type="button" @click=${() => go({ sort: next === "name" ? null : next })}>${label}</button>
  </th>`;
}
