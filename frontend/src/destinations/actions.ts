/** Actions on one or many destinations, each with preview, result and undo. */

import { runDelayed } from "../delayed-action.ts";
import { gettext, ngettext } from "../gettext.ts";
import { request } from "../live/requests.ts";
import { exported, purge } from "./job-actions.ts";
import { pathOf, type Kind } from "./address.ts";
import { each, objects, report, confirmed, typedFor, type Operation } from "./operation.ts";
import type { DestinationStats } from "./stats.ts";

export type Action = "pause" | "resume" | "purge" | "export" | "delete";

export function actionsOf(kind: Kind): Action[] {
  return kind === "queue" ? ["pause", "resume", "purge", "export", "delete"] : ["pause", "resume"];
}

export const LABELS: Record<Action, string> = {
  pause: gettext("Pause"),
  resume: gettext("Resume"),
  purge: gettext("Purge…"),
  export: gettext("Export"),
  delete: gettext("Delete…"),
};

/** The missing right for an action, if it is known to be missing; else empty. */
export function missingRight(action: Action, isAdministrator: boolean): string {
  return isAdministrator || action === "purge" || action === "export" ? "" : gettext("requires the right administer");
}

/** Ask for confirmation, and run the action. */
export async function perform(action: Action, operation: Operation): Promise<void> {
  await ACTIONS[action](operation);
}

const ACTIONS: Record<Action, (operation: Operation) => Promise<void>> = {
  pause: (operation) => turn(operation, operation.kind === "queue" ? "all" : "producers"),
  resume: (operation) => turn(operation, "none"),
  purge,
  export: exported,
  delete: removed,
};

// ------------------------------------------------------------------ pause and resume

async function turn(operation: Operation, to: string): Promise<void> {
  const pausing = to !== "none";
  const on = objects(operation);
  const chosen = await confirmed(operation, {
    title: pausing ? gettext("Pause {on}", { on }) : gettext("Resume {on}", { on }),
    effect: pausing
      ? gettext("Producers are refused and consumers receive nothing until it is resumed. Waiting messages are kept.")
      : gettext("Producers can send and consumers receive messages again."),
    button: pausing ? gettext("Pause") : gettext("Resume"),
    preview: (rows) => {
      const already = rows.filter((row) => (row.paused !== "none") === pausing).length;
      const will = ngettext("{count} would change.", "{count} would change.", rows.length - already);
      const stay = already ? ngettext("{count} is already in this state.", "{count} are already in this state.", already) : "";
      return `${will} ${stay}`;
    },
  });
  if (chosen === null) return;
  const { rows, reason } = chosen;
  const set = (row: DestinationStats, value: string) => request("PATCH", pathOf(operation.kind, row.name), { paused: value }, reason, "*");
  const change = rows.filter((row) => (row.paused !== "none") !== pausing);
  const { done, failures } = await each(operation, change, (row) => set(row, to));
  report(done.length, failures, {
    text: pausing ? ngettext("{count} paused.", "{count} paused.", done.length) : ngettext("{count} resumed.", "{count} resumed.", done.length),
    undo: () =>
      void each(operation, done, (row) => set(row, row.paused)).then(({ done: back, failures: wrong }) => {
        operation.done();
        report(back.length, wrong, { text: ngettext("{count} restored.", "{count} restored.", back.length) });
      }),
  });
  operation.done();
}

// ------------------------------------------------------------------ delete

async function removed(operation: Operation): Promise<void> {
  const on = objects(operation);
  const chosen = await confirmed(operation, {
    title: gettext("Delete {on}", { on }),
    effect: gettext("The queue is deleted with its messages and settings. Queues with consumers are not deleted."),
    button: gettext("Delete"),
    danger: true,
    typed: typedFor(operation),
    preview: (rows) => {
      const [free, messages] = [rows.filter((row) => !row.consumers), rows.reduce((sum, row) => sum + row.depth + row.unsettled, 0)];
      const consumed = rows.length - free.length;
      return [
        ngettext("{count} queue would be deleted,", "{count} queues would be deleted,", free.length),
        ngettext("with {count} message.", "with {count} messages.", messages),
        consumed ? ngettext("{count} has consumers and is kept.", "{count} have consumers and are kept.", consumed) : "",
      ].join(" ");
    },
  });
  if (chosen === null) return;
  runDelayed(
    ngettext("{count} queue is deleted in ten seconds.", "{count} queues are deleted in ten seconds.", chosen.rows.length),
    { isSingle: false },
    async () => {
      const { done, failures } = await each(operation, chosen.rows, (row) =>
        request("DELETE", pathOf(operation.kind, row.name, "", { force: true }), undefined, chosen.reason, "*"),
      );
      operation.done();
      report(done.length, failures, { text: ngettext("{count} deleted.", "{count} deleted.", done.length) });
    },
  );
}
