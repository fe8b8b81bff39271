/** Labels of jobs. */

import type { JobOperation } from "../generated/tables.ts";
import type { Job } from "../messages/requests.ts";
import { gettext, ngettext } from "../gettext.ts";
import { duration } from "../view/format.ts";
import { signIn, type Sign } from "../view/sign.ts";
import { JOB_STATE } from "../generated/signs/job-state.ts";
import { SEVERITY } from "../generated/signs/severity.ts";

export const isOpen = ({ state }: Pick<Job, "state">): boolean => state === "waiting" || state === "running";

export function signOfJob({ state, refused }: Pick<Job, "state" | "refused">): Sign {
  return state === "done" && refused > 0 ? { ...SEVERITY.warning, word: gettext("done, some refused") } : signIn(JOB_STATE, state);
}

/** "Retry 400 messages": what a job does, or did. */
export function titleOf(op: JobOperation, total: number): string {
  switch (op) {
    case "move":
      return ngettext("Move {count} message", "Move {count} messages", total);
    case "copy":
      return ngettext("Copy {count} message", "Copy {count} messages", total);
    case "retry":
      return ngettext("Retry {count} message", "Retry {count} messages", total);
    case "delete":
      return ngettext("Delete {count} message", "Delete {count} messages", total);
    case "purge":
      return ngettext("Purge {count} message", "Purge {count} messages", total);
    case "export":
      return ngettext("Export {count} message", "Export {count} messages", total);
    case "replay":
      return ngettext("Replay {count} message", "Replay {count} messages", total);
    case "import":
      return ngettext("Import {count} message", "Import {count} messages", total);
    case "undo":
      return ngettext("Move {count} message back", "Move {count} messages back", total);
    default:
      return `${op}: ${total}`;
  }
}

/** A queue as jobs name it, without its kind. */
export function placeOf(address: string | null): string {
  if (address === "origin") return gettext("their origin");
  return address?.replace(/^\/queue\//, "") ?? "";
}

/** The remaining time at the current rate; undefined if it is unknown. */
export function left({ started, processed, total }: Pick<Job, "started" | "processed" | "total">): string | undefined {
  const seconds = started ? (Date.now() - Date.parse(started)) / 1000 : 0;
  if (seconds < 1 || processed === 0 || processed >= total) return undefined;
  return duration(((total - processed) * seconds) / processed);
}
