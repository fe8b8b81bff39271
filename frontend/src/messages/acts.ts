/** What can be done to messages: to one, to those that are selected, to all that match. Each is a job, or holds. */

import { html, nothing, type TemplateResult } from "lit";
import { ask } from "../asking.ts";
import { JobToast } from "../islands/job-toast.ts";
import "../islands/queue-name.ts";
import { say, sayCount } from "../say.ts";
import { tell } from "../toasts.ts";
import { bodyOf, preview } from "../view/body.ts";
import { ago, count, fullTime } from "../view/format.ts";
import { begin, faultOf, plan, remove, type Message, type Plan, type Wish } from "./requests.ts";
import { isEmpty, type Condition } from "./search.ts";

export type Op = "retry" | "move" | "copy" | "delete" | "export" | "replay";

/** How long a deletion can be taken back: so long it is only promised. */
const HELD_MS = 10_000;
const NAMED = 4;

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
  let drawn: Plan | undefined;
  const name = source.replace(/^topic:/, "");
  const answer = await ask({
    title: known !== undefined ? titleOfSome(op, name, known) : isEmpty(filter) ? titleOfAll(op, name) : titleOfMatching(op, name),
    effect: effectOf(op),
    act: ACT(op),
    danger: op === "delete",
    fields: fieldsOf(op),
    ...(op === "delete" && { typed: name }),
    dryRun: async (fields) => {
      const wish = wishOf(op, source, filter, fields);
      if (wish.target === "") return say("Choose a queue: then it is seen what would be done.");
      drawn = await plan(wish).catch((error: unknown) => {
        throw new Error(faultOf(error, say("The broker cannot be reached.")));
      });
      if (drawn.count === 0) throw new Error(say("There is no such message any more."));
      return foreseen(drawn);
    },
  });
  if (answer === null || drawn === undefined) return;
  const { plan: planned, count: total } = drawn;
  const start = async () => {
    try {
      JobToast.show(await begin(planned, answer.reason));
    } catch (error) {
      tell({ text: faultOf(error, say("The broker cannot be reached. Nothing was begun.")), tone: "bad" });
    }
  };
  if (op !== "delete") return start();
  hold(sayCount("{count} message will be deleted.", "{count} messages will be deleted.", total), start);
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

/** Does it a while later, or when the page is left, unless it is taken back. */
function hold(text: string, deed: () => Promise<void>): void {
  const now = () => {
    clearTimeout(timer);
    removeEventListener("pagehide", now);
    void deed();
  };
  const timer = setTimeout(now, HELD_MS);
  addEventListener("pagehide", now);
  const undo = () => {
    clearTimeout(timer);
    removeEventListener("pagehide", now);
    tell({ text: say("Taken back: nothing was deleted."), tone: "quiet" });
  };
  tell({ text, tone: "warn", undo });
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
  const [one, many] = {
    retry: ["Retry {count} message of {queue}", "Retry {count} messages of {queue}"],
    move: ["Move {count} message of {queue}", "Move {count} messages of {queue}"],
    copy: ["Copy {count} message of {queue}", "Copy {count} messages of {queue}"],
    delete: ["Delete {count} message of {queue}", "Delete {count} messages of {queue}"],
    export: ["Export {count} message of {queue}", "Export {count} messages of {queue}"],
    replay: ["Replay {count} message of {queue}", "Replay {count} messages of {queue}"],
  }[op] as [string, string];
  return sayCount(one, many, known, { queue });
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

function fieldsOf(op: Op): TemplateResult {
  const target = op === "move" || op === "copy" || op === "replay";
  return html`
    ${target ? html`<mom-queue-name name="target" label=${say("To the queue")}></mom-queue-name>` : nothing}
    ${op === "retry"
      ? html`<mom-queue-name name="target" optional label=${say("To the queue (empty: where each died)")}></mom-queue-name>`
      : nothing}
    <div class="fields">
      <label>${say("At most")}<input name="limit" type="number" min="1" max="1000000" placeholder=${say("all")} /></label>
      ${op === "export"
        ? nothing
        : html`<label>${say("Messages a second")}<input name="rate" type="number" min="1" max="1000000" placeholder=${say("any")} /></label>
            <label>${say("Stop when so many are refused, %")}<input name="ratio" type="number" min="1" max="100" value="20" /></label>`}
    </div>`;
}

function wishOf(op: Op, source: string, filter: Condition, fields: FormData): Wish {
  const text = (name: string) => String(fields.get(name) ?? "").trim();
  const number = (name: string) => (text(name) ? Number(text(name)) : undefined);
  const target = fields.has("target") && (op !== "retry" || text("target")) ? text("target") : undefined;
  const [limit, rate, ratio] = [number("limit"), number("rate"), number("ratio")];
  return {
    op,
    source,
    ...(target !== undefined && { target }),
    ...(!isEmpty(filter) && { filter }),
    ...(limit && { limit }),
    ...(rate && { rate_per_s: rate }),
    ...(ratio && { max_error_ratio: ratio / 100 }),
  };
}

/** What a plan says: how many, how old, where from and why, some of them, and what may go wrong. */
function foreseen(drawn: Plan): TemplateResult {
  const times = drawn.oldest && drawn.newest;
  return html`<div class="foreseen">
    <p><strong>${sayCount("{count} message", "{count} messages", drawn.count)}</strong>${drawn.matches > drawn.count
      ? html` ${say("of {matches} that match", { matches: count(drawn.matches) })}`
      : nothing}${times
      ? html` · ${say("oldest")} <time datetime=${drawn.oldest!} title=${fullTime(drawn.oldest!)}>${ago(drawn.oldest!)}</time> ·
          ${say("newest")} <time datetime=${drawn.newest!} title=${fullTime(drawn.newest!)}>${ago(drawn.newest!)}</time>`
      : nothing}</p>
    ${shares(say("From"), drawn.by_origin)} ${shares(say("Why"), drawn.by_reason)}
    ${drawn.warnings.map((warning) => html`<p class="hint" data-tone="warn">▲ ${warning}</p>`)}
    <details>
      <summary>${sayCount("{count} sample", "{count} samples", drawn.sample.length)}</summary>
      <ul class="samples">
        ${drawn.sample.map((message) => html`<li><span class="quiet num">#${message.position}</span> ${preview(bodyOf(message))}</li>`)}
      </ul>
    </details>
  </div>`;
}

function shares(label: string, counts: Record<string, number>): TemplateResult | typeof nothing {
  const entries = Object.entries(counts);
  if (entries.length === 0) return nothing;
  const others = entries.slice(NAMED).reduce((sum, [, number]) => sum + number, 0);
  return html`<p><span class="quiet">${label}:</span> ${entries.slice(0, NAMED).map(([name, number]) => `${name} ${count(number)}`).join(" · ")}${others
      ? ` · ${say("others")} ${count(others)}`
      : ""}</p>`;
}
