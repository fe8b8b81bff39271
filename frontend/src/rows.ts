/** Keyboard shortcuts for rows of tables: next, previous, select, and actions of the focused row. */

import { bindShortcuts } from "./shortcuts.ts";
import { gettext } from "./gettext.ts";

const ROWS = "#main tbody tr";

function rows(): HTMLElement[] {
  return [...document.querySelectorAll<HTMLElement>(ROWS)].filter((row) => row.offsetParent !== null && handle(row) !== null);
}

/** The element of a row that takes the focus: its link, else its checkbox. */
function handle(row: Element): HTMLElement | null {
  for (const selector of ["a.row, th a", "button[aria-expanded]", "a[href]", "input[type=checkbox]", "button"]) {
    const found = row.querySelector<HTMLElement>(selector);
    if (found !== null) return found;
  }
  return null;
}

function current(): Element | null {
  return document.activeElement?.closest(ROWS) ?? null;
}

function move(step: 1 | -1): void {
  const all = rows();
  const at = all.indexOf(current() as HTMLElement);
  const row = all[at < 0 ? 0 : Math.min(Math.max(at + step, 0), all.length - 1)];
  if (row) handle(row)?.focus();
}

/** Click the button of the row, or else of the page, that has this `data-key`. */
function pressed(selector: string, inRow = false): void {
  const found = current()?.querySelector<HTMLElement>(selector) ?? (inRow ? null : document.querySelector<HTMLElement>(`#main ${selector}`));
  found?.click();
}

bindShortcuts(
  {
    keys: "/",
    label: gettext("Filter"),
    action: () => {
      const field = document.querySelector<HTMLInputElement>("#main input[type=search]") ?? document.querySelector<HTMLInputElement>("#tree-filter");
      field?.focus();
      field?.select();
    },
  },
  { keys: "j", label: gettext("Next row"), action: () => move(1) },
  { keys: "k", label: gettext("Previous row"), action: () => move(-1) },
  { keys: "x", label: gettext("Select the row"), action: () => pressed("input[type=checkbox]", true) },
  { keys: "r", label: gettext("Retry"), action: () => pressed("[data-key=r]") },
  { keys: "m", label: gettext("Move"), action: () => pressed("[data-key=m]") },
  { keys: ".", label: gettext("Actions for the row"), action: () => pressed(".acts-of-row button", true) },
);
