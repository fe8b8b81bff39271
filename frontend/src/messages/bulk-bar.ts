/** The actions on the selected messages, or on all that match the search. */

import { html, nothing, type TemplateResult } from "lit";
import { gettext, ngettext } from "../gettext.ts";
import type { Op } from "./actions.ts";
import { isEmpty, type Condition } from "./search.ts";
import { refusal } from "../view/refusal.ts";

export interface BulkParts {
  queue: string;
  /** The number of selected messages; none: all that match. */
  chosen: number;
  condition: Condition;
  /** Whether dead letters are shown. */
  dead: boolean;
  /** The rights of the user on the queue, where they are known. */
  rights: string[] | undefined;
  act: (op: Op) => void;
  clear: () => void;
}

export function bulkBar(parts: BulkParts): TemplateResult {
  const { chosen, condition, dead, clear } = parts;
  const ops: [Op, string][] = [
    ...(dead ? ([["retry", gettext("Retry…")]] as [Op, string][]) : []),
    ["move", gettext("Move…")],
    ["copy", gettext("Copy…")],
    ["export", gettext("Export…")],
    ["delete", gettext("Delete…")],
  ];
  const number =
    chosen > 0 ? ngettext("{count} selected:", "{count} selected:", chosen) : isEmpty(condition) ? gettext("All messages:") : gettext("All that match:");
  return html`<div class="bulk tools" ?data-chosen=${chosen > 0} role="group" aria-label=${gettext("Bulk actions")}>
    <span class="num">${number}</span>
    ${ops.map(([op, word]) => button(op, word, parts))}
    ${
      chosen > 0
        ? html`<button type="button" class="link" @click=${clear}>
          ${isEmpty(condition) ? gettext("or use all messages") : gettext("or use all that match")}
        </button>`
        : nothing
    }
  </div>`;
}

function button(op: Op, word: string, parts: BulkParts): TemplateResult {
  const hint = obstacle(op, parts);
  return html`<button type="button" class=${op === "retry" ? "primary" : ""} ?disabled=${hint !== ""} title=${hint || nothing} @click=${() => parts.act(op)}>
    ${word}
  </button>`;
}

/** Why an action is not possible; "" if it is. */
export function obstacle(op: Op, { queue, chosen, condition: { state }, rights }: Pick<BulkParts, "queue" | "chosen" | "condition" | "rights">): string {
  const refused = refusal();
  if (refused !== undefined) return refused;
  const right = op === "copy" || op === "export" ? "read" : "manage";
  if (rights !== undefined && !rights.includes(right)) return gettext("Requires the right {right} on {queue}.", { right, queue });
  if (chosen > 0) return "";
  if (state === "unsettled") return gettext("Unsettled messages are settled by their consumer.");
  return state === "delayed" && op !== "delete" && op !== "export" ? gettext("Delayed messages can only be deleted or exported.") : "";
}
