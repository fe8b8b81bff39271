/** What can be done to messages: to one, to those that are selected, to all that match. Each is a job, or holds. */

import { ask } from "../asking.ts";
import { JobToast } from "../islands/job-toast.ts";
import { askJob, hold } from "../job-asking.ts";
import { say, sayCount } from "../say.ts";
import { tell } from "../toasts.ts";
import { begin, faultOf, plan, remove, type Message } from "./requests.ts";
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
  const title = known !== undefined ? titleOfSome(op, name, known) : isEmpty(filter) ? titleOfAll(op, name) : titleOfMatching(op, name);
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

/** Retries one dead letter at once: one key, one click, and Undo. */
export async function retryOne(queue: string, message: Message): Promise<void> {
  try {
    const drawn = await plan({ op: "retry", source: queue, filter: { ids: [message.id] } });
    JobToast.show(await begin(drawn.plan));
  } catch (error) {
    tell({ text: faultOf(error, say("The broker cannot be reached. Nothing was begun.")), tone: "bad" });
  }
}

/** Asks, then deletes one message after a while in which that can be taken back. */
export async function deleteOne(queue: string, message: Message, gone: () => void): Promise<void> {
  const answer = await ask({
    title: say("Delete message #{position} of {queue}", { position: message.position, queue }),
    effect: say("It is removed for good ten seconds later; until then it can be taken back."),
    act: say("Delete"),
    danger: true,
    typed: queue,
  });
  if (answer === null) return;
  hold(say("Message #{position} will be deleted.", { position: message.position }), async () => {
    try {
      await remove(queue, message.id, answer.reason);
      gone();
    } catch (error) {
      tell({ text: faultOf(error, say("The broker cannot be reached.")), tone: "bad" });
    }
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

function titleOfSome(op: Op, queue: string, known: number): string {
  switch (op) {
    case "retry":
      return sayCount("Retry {count} message of {queue}", "Retry {count} messages of {queue}", known, { queue });
    case "move":
      return sayCount("Move {count} message of {queue}", "Move {count} messages of {queue}", known, { queue });
    case "copy":
      return sayCount("Copy {count} message of {queue}", "Copy {count} messages of {queue}", known, { queue });
    case "delete":
      return sayCount("Delete {count} message of {queue}", "Delete {count} messages of {queue}", known, { queue });
    case "export":
      return sayCount("Export {count} message of {queue}", "Export {count} messages of {queue}", known, { queue });
    case "replay":
      return sayCount("Replay {count} message of {queue}", "Replay {count} messages of {queue}", known, { queue });
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
