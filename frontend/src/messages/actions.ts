/** Actions on many messages: on a selection, or on all that match. */

import { openJobDialog } from "../job-dialog.ts";
import type { PlannedOperation } from "../generated/tables.ts";
import { titleOf } from "../jobs/labels.ts";
import { gettext, ngettext } from "../gettext.ts";
import type { Plan } from "./requests.ts";
import { isEmpty, type Condition } from "./search.ts";

export type Op = Exclude<PlannedOperation, "purge">;

const ACT = (op: Op): string =>
  ({
    retry: gettext("Retry"),
    move: gettext("Move"),
    copy: gettext("Copy"),
    delete: gettext("Delete"),
    export: gettext("Export"),
    replay: gettext("Replay"),
  })[op];

/** Open the dialog with a dry run, and start the job. `known` is the number of messages if it is known. */
export async function openBulkDialog(op: Op, source: string, filter: Condition, known?: number): Promise<void> {
  const name = source.replace(/^topic:/, "");
  const title = (planned?: Plan) => {
    const part = planned !== undefined && planned.count < planned.matches ? planned.count : known;
    return part !== undefined ? `${titleOf(op, part)} · ${name}` : isEmpty(filter) ? titleOfAll(op, name) : titleOfMatching(op, name);
  };
  await openJobDialog({
    jobRequest: { op, source, ...(!isEmpty(filter) && { filter }) },
    title,
    effect: effectOf(op),
    button: (planned) => (planned === undefined ? ACT(op) : titleOf(op, planned.count)),
    danger: op === "delete",
    target: op === "retry" ? "optional" : op === "delete" || op === "export" ? "none" : "needed",
    paced: op !== "export",
    ...(op === "delete" && { typed: name, held: (count) => ngettext("{count} message will be deleted.", "{count} messages will be deleted.", count) }),
  });
}

function titleOfAll(op: Op, queue: string): string {
  switch (op) {
    case "retry":
      return gettext("Retry all messages of {queue}", { queue });
    case "move":
      return gettext("Move all messages of {queue}", { queue });
    case "copy":
      return gettext("Copy all messages of {queue}", { queue });
    case "delete":
      return gettext("Delete all messages of {queue}", { queue });
    case "export":
      return gettext("Export all messages of {queue}", { queue });
    case "replay":
      return gettext("Replay all retained messages of {queue}", { queue });
  }
}

function titleOfMatching(op: Op, queue: string): string {
  switch (op) {
    case "retry":
      return gettext("Retry all matching messages of {queue}", { queue });
    case "move":
      return gettext("Move all matching messages of {queue}", { queue });
    case "copy":
      return gettext("Copy all matching messages of {queue}", { queue });
    case "delete":
      return gettext("Delete all matching messages of {queue}", { queue });
    case "export":
      return gettext("Export all matching messages of {queue}", { queue });
    case "replay":
      return gettext("Replay all matching messages of {queue}", { queue });
  }
}

function effectOf(op: Op): string {
  switch (op) {
    case "retry":
      return gettext("Each message is returned to its origin, or to the queue that you name, and delivered again.");
    case "move":
      return gettext("Each message is moved to the end of another queue, with its id and headers.");
    case "copy":
      return gettext("Each message is copied to another queue and also stays here.");
    case "delete":
      return gettext("The messages are deleted permanently after ten seconds. Moving them to another queue can be undone.");
    case "export":
      return gettext("The messages are written to a file of JSON lines for download. They also stay in the queue.");
    case "replay":
      return gettext("The messages are copied to a queue in order. The topic keeps them.");
  }
}
