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
      return say("Replay what {queue} retains", { queue });
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
      return say("Replay what matches of {queue}", { queue });
  }
}

function effectOf(op: Op): string {
  switch (op) {
    case "retry":
      return say("Each goes back to the queue where it died, or to the one that you name, and is tried anew.");
    case "move":
      return say("Each goes to the end of another queue, with its id and its headers.");
    case "copy":
      return say("Each is put into another queue, too, and stays here.");
    case "delete":
      return say("They are removed for good, ten seconds after you said so. Moving them to another queue can be undone.");
    case "export":
      return say("They are written as lines of JSON, to be downloaded. They stay where they are.");
    case "replay":
      return say("They are put into a queue, in their order. The topic keeps them.");
  }
}
