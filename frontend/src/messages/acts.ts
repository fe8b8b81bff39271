/** What can be done to many messages: to those that are selected, or to all that match. */

import { askJob } from "../job-asking.ts";
import { titleOf } from "../jobs/words.ts";
import { say, sayCount } from "../say.ts";
import { isEmpty, type Condition } from "./search.ts";

export type Op = "retry" | "move" | "copy" | "delete" | "export" | "replay";

const ACT = (op: Op): string =>
  ({
    retry: say("Retry"),
    move: say("Move"),
    copy: say("Copy"),
    delete: say("Delete"),
    export: say("Export"),
    replay: say("Replay"),
  })[op];

/** Asks, with a dry run, and begins the job. `known` is how many they are, where that is known before. */
export async function doToMany(op: Op, source: string, filter: Condition, known?: number): Promise<void> {
  const name = source.replace(/^topic:/, "");
  const title = known !== undefined ? `${titleOf(op, known)} · ${name}` : isEmpty(filter) ? titleOfAll(op, name) : titleOfMatching(op, name);
  await askJob({
    wish: { op, source, ...(!isEmpty(filter) && { filter }) },
    title,
    effect: effectOf(op),
    act: ACT(op),
    danger: op === "delete",
    target: op === "retry" ? "optional" : op === "delete" || op === "export" ? "none" : "needed",
    paced: op !== "export",
    ...(op === "delete" && { typed: name, held: (count) => sayCount("{count} message will be deleted.", "{count} messages will be deleted.", count) }),
  });
}

function titleOfAll(op: Op, queue: string): string {
  switch (op) {
    case "retry":
      return say("Retry all messages of {queue}", { queue });
    case "move":
      return say("Move all messages of {queue}", { queue });
    case "copy":
      return say("Copy all messages of {queue}", { queue });
    case "delete":
      return say("Delete all messages of {queue}", { queue });
    case "export":
      return say("Export all messages of {queue}", { queue });
    case "replay":
      return say("Replay all retained messages of {queue}", { queue });
  }
}

function titleOfMatching(op: Op, queue: string): string {
  switch (op) {
    case "retry":
      return say("Retry all matching messages of {queue}", { queue });
    case "move":
      return say("Move all matching messages of {queue}", { queue });
    case "copy":
      return say("Copy all matching messages of {queue}", { queue });
    case "delete":
      return say("Delete all matching messages of {queue}", { queue });
    case "export":
      return say("Export all matching messages of {queue}", { queue });
    case "replay":
      return say("Replay all matching messages of {queue}", { queue });
  }
}

function effectOf(op: Op): string {
  switch (op) {
    case "retry":
      return say("Each message is returned to its origin, or to the queue that you name, and delivered again.");
    case "move":
      return say("Each message is moved to the end of another queue, with its id and headers.");
    case "copy":
      return say("Each message is copied to another queue and also stays here.");
    case "delete":
      return say("The messages are deleted permanently after ten seconds. Moving them to another queue can be undone.");
    case "export":
      return say("The messages are written to a file of JSON lines for download. They also stay in the queue.");
    case "replay":
      return say("The messages are copied to a queue in order. The topic keeps them.");
  }
}
