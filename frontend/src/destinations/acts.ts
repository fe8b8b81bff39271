/** What can be done to destinations, one or many: each with what it would do, what came of it, and the way back. */

import { html, nothing, type TemplateResult } from "lit";
import { ask, type Answer, type Question } from "../asking.ts";
import { act, inWords } from "../live/requests.ts";
import { consolePage, pageOf } from "../pages.ts";
import { say, sayCount } from "../say.ts";
import { tell } from "../toasts.ts";
import { count, duration } from "../view/format.ts";
import type { Figures, Kind } from "./figures.ts";

/** Destinations of one act. */
export const MOST = 200;
/** Requests that are under way together. */
const TOGETHER = 4;
/** How long what cannot be taken back is held. */
const HELD_MS = 10_000;

export type Deed = "pause" | "resume" | "purge" | "export" | "delete";

export interface Doing {
  kind: Kind;
  /** Finds out what is meant, when it is asked for. */
  chosen: () => Promise<Figures[]>;
  /** How many are meant, and the name where it is one. */
  number: number;
  name: string;
  /** Told how many are done; the last time with null. */
  progress: (text: string | null) => void;
  /** Something has changed. */
  done: () => void;
}

interface Failure {
  name: string;
  why: string;
}

export function deedsOf(kind: Kind): Deed[] {
  return kind === "queue" ? ["pause", "resume", "purge", "export", "delete"] : ["pause", "resume"];
}

export const LABELS: Record<Deed, string> = {
  pause: say("Pause"),
  resume: say("Resume"),
  purge: say("Purge…"),
  export: say("Export"),
  delete: say("Delete…"),
};

/** The right that a deed needs, where who looks is known not to have it; empty when nothing stands in the way. */
export function missingRight(deed: Deed, administers: boolean): string {
  return administers || deed === "purge" || deed === "export" ? "" : say("requires the right administer");
}

/** Asks, and does it. */
export async function perform(deed: Deed, doing: Doing): Promise<void> {
  await DEEDS[deed](doing);
}

const DEEDS: Record<Deed, (doing: Doing) => Promise<void>> = {
  pause: (doing) => turn(doing, doing.kind === "queue" ? "all" : "producers"),
  resume: (doing) => turn(doing, "none"),
  purge,
  export: exported,
  delete: removed,
};

// ------------------------------------------------------------------ pause and resume

async function turn(doing: Doing, to: string): Promise<void> {
  const pausing = to !== "none";
  const on = objects(doing);
  const chosen = await sure(doing, {
    title: pausing ? say("Pause {on}", { on }) : say("Resume {on}", { on }),
    effect: pausing
      ? say("Producers are refused and consumers receive nothing until it is resumed. Waiting messages are kept.")
      : say("Producers can send and consumers receive messages again."),
    act: pausing ? say("Pause") : say("Resume"),
    foresee: (rows) => {
      const already = rows.filter((row) => (row.paused !== "none") === pausing).length;
      const will = sayCount("{count} would change.", "{count} would change.", rows.length - already);
      const stay = already ? sayCount("{count} is already in this state.", "{count} are already in this state.", already) : "";
      return `${will} ${stay}`;
    },
  });
  if (chosen === null) return;
  const { rows, reason } = chosen;
  const set = (row: Figures, value: string) => act("PATCH", pathOf(doing.kind, row.name), { paused: value }, reason, "*");
  const change = rows.filter((row) => (row.paused !== "none") !== pausing);
  const { done, failures } = await each(doing, change, (row) => set(row, to));
  report(done.length, failures, {
    text: pausing ? sayCount("{count} paused.", "{count} paused.", done.length) : sayCount("{count} resumed.", "{count} resumed.", done.length),
    undo: () =>
      void each(doing, done, (row) => set(row, row.paused)).then(({ done: back, failures: wrong }) => {
        doing.done();
        report(back.length, wrong, { text: sayCount("{count} restored.", "{count} restored.", back.length) });
      }),
  });
  doing.done();
}

// ------------------------------------------------------------------ jobs: purge, export

interface Plan {
  plan: string;
  matches: number;
  oldest: string | null;
}

async function plans(doing: Doing, op: "purge" | "export", rows: Figures[]): Promise<Map<string, Plan>> {
  const found = new Map<string, Plan>();
  const { failures } = await each(doing, rows, async (row) => {
    found.set(row.name, await act<Plan>("POST", "jobs", { op, source: row.name, dry_run: true }));
  });
  if (found.size === 0 && failures.length > 0) throw new Error(`${failures[0]!.name}: ${failures[0]!.why}`);
  return found;
}

function foreseen(found: Map<string, Plan>, rows: Figures[]): TemplateResult {
  const all = [...found.values()];
  const messages = all.reduce((sum, plan) => sum + plan.matches, 0);
  const oldest = all.flatMap((plan) => (plan.oldest ? [plan.oldest] : [])).sort()[0];
  const unsettled = rows.reduce((sum, row) => sum + row.unsettled, 0);
  const age = oldest && duration(Math.max(0, (Date.now() - Date.parse(oldest)) / 1000));
  return html`${sayCount("{count} message", "{count} messages", messages)}${age
    ? html`, ${say("the oldest is {age} old", { age })}`
    : nothing}.
  ${unsettled ? sayCount("{count} is unsettled and is kept.", "{count} are unsettled and are kept.", unsettled) : nothing}
  ${found.size < rows.length ? say("Failed for {count}.", { count: count(rows.length - found.size) }) : nothing}`;
}

async function purge(doing: Doing): Promise<void> {
  let found = new Map<string, Plan>();
  const on = objects(doing);
  const chosen = await sure(doing, {
    title: say("Purge {on}", { on }),
    effect: say("All ready messages are deleted permanently. Unsettled messages stay with their consumers."),
    act: say("Purge"),
    danger: true,
    typed: typedFor(doing),
    foresee: async (rows) => {
      found = await plans(doing, "purge", rows);
      return foreseen(found, rows);
    },
  });
  if (chosen === null) return;
  const messages = [...found.values()].reduce((sum, plan) => sum + plan.matches, 0);
  hold(sayCount("{count} message is purged in ten seconds.", "{count} messages are purged in ten seconds.", messages), () =>
    run(doing, found, chosen.reason, sayCount("{count} queue is being purged.", "{count} queues are being purged.", found.size)),
  );
}

async function exported(doing: Doing): Promise<void> {
  let found = new Map<string, Plan>();
  const chosen = await sure(doing, {
    title: say("Export {on}", { on: objects(doing) }),
    effect: say("All ready messages are written to one file of JSON lines per queue. They also stay in the queue."),
    act: say("Export"),
    foresee: async (rows) => {
      found = await plans(doing, "export", rows);
      return foreseen(found, rows);
    },
  });
  if (chosen !== null) {
    await run(doing, found, chosen.reason, sayCount("{count} queue is being exported.", "{count} queues are being exported.", found.size));
  }
}

async function run(doing: Doing, found: Map<string, Plan>, reason: string, text: string): Promise<void> {
  const { done, failures } = await each(doing, [...found].map(([name, { plan }]) => ({ name, plan })), ({ plan }) =>
    act("POST", "jobs", { plan }, reason),
  );
  doing.done();
  report(done.length, failures, { text, link: { href: consolePage("jobs/"), text: say("Jobs") } });
}

// ------------------------------------------------------------------ delete

async function removed(doing: Doing): Promise<void> {
  const on = objects(doing);
  const chosen = await sure(doing, {
    title: say("Delete {on}", { on }),
    effect: say("The queue is deleted with its messages and settings. Queues with consumers are not deleted."),
    act: say("Delete"),
    danger: true,
    typed: typedFor(doing),
    foresee: (rows) => {
      const [free, messages] = [rows.filter((row) => !row.consumers), rows.reduce((sum, row) => sum + row.depth + row.unsettled, 0)];
      const consumed = rows.length - free.length;
      return [
        sayCount("{count} queue would be deleted,", "{count} queues would be deleted,", free.length),
        sayCount("with {count} message.", "with {count} messages.", messages),
        consumed ? sayCount("{count} has consumers and is kept.", "{count} have consumers and are kept.", consumed) : "",
      ].join(" ");
    },
  });
  if (chosen === null) return;
  hold(sayCount("{count} queue is deleted in ten seconds.", "{count} queues are deleted in ten seconds.", chosen.rows.length), async () => {
    const { done, failures } = await each(doing, chosen.rows, (row) =>
      act("DELETE", `${pathOf(doing.kind, row.name)}?force=true`, undefined, chosen.reason, "*"),
    );
    doing.done();
    report(done.length, failures, { text: sayCount("{count} deleted.", "{count} deleted.", done.length) });
  });
}

// ------------------------------------------------------------------ a new one

/** Asks for a name, and declares a queue or topic of that name. Resolves to it, or to null. */
export async function create(kind: Kind): Promise<string | null> {
  const answer = await ask({
    title: kind === "queue" ? say("New queue") : say("New topic"),
    effect:
      kind === "queue"
        ? say("A queue keeps messages until a consumer acknowledges them. Dots in its name create branches in the tree.")
        : say("A topic delivers each message to all its subscribers. Dots in its name create levels for wildcards."),
    act: say("Create"),
    fields: html`<label>${say("Name")}<input name="name" required maxlength="255" autocomplete="off" spellcheck="false" autofocus /></label>
      <label>${say("Maximum number of messages; empty: no limit")}<input name="most" type="number" min="1" step="1" /></label>`,
  });
  if (answer === null) return null;
  const name = String(answer.fields.get("name") ?? "").trim();
  const most = Number(answer.fields.get("most"));
  try {
    await act("PUT", pathOf(kind, name), most ? { max_messages: most } : {}, answer.reason);
  } catch (fault) {
    tell({ text: inWords(fault), tone: "bad" });
    return null;
  }
  tell({ text: say("{name} was created.", { name }), tone: "good", link: { href: pageOf(`/${kind}/${name}`), text: say("Open") } });
  return name;
}

// ------------------------------------------------------------------ what all have in common

interface Sure extends Omit<Question, "dryRun"> {
  foresee: (rows: Figures[]) => string | TemplateResult | Promise<string | TemplateResult>;
}

/** What was chosen once it is clear what would be done to it and somebody said yes; null when nobody did. */
async function sure(doing: Doing, { foresee, ...question }: Sure): Promise<{ rows: Figures[]; reason: string } | null> {
  let rows: Figures[] = [];
  const answer: Answer | null = await ask({
    ...question,
    dryRun: async () => {
      rows = await doing.chosen();
      if (rows.length > MOST) throw new Error(say("At most {most} at a time, but {count} are selected. Select fewer, or use a filter.", { most: MOST, count: count(rows.length) }));
      try {
        return await foresee(rows);
      } finally {
        doing.progress(null);
      }
    },
  });
  return answer === null ? null : { rows, reason: answer.reason };
}

function objects({ kind, number, name }: Doing): string {
  if (number === 1) return name;
  return kind === "queue" ? sayCount("{count} queue", "{count} queues", number) : sayCount("{count} topic", "{count} topics", number);
}

function typedFor({ number, name }: Doing): string {
  return number === 1 ? name : String(number);
}

/** Does something to each, a few at a time. */
async function each<Thing extends { name: string }>(
  doing: Doing,
  things: Thing[],
  deed: (thing: Thing) => Promise<unknown>,
): Promise<{ done: Thing[]; failures: Failure[] }> {
  const done: Thing[] = [];
  const failures: Failure[] = [];
  const waiting = things.values();
  const work = async () => {
    for (const thing of waiting) {
      try {
        await deed(thing);
        done.push(thing);
      } catch (fault) {
        failures.push({ name: thing.name, why: inWords(fault) });
      }
      if (things.length > 1) doing.progress(say("{done} of {all}", { done: done.length + failures.length, all: things.length }));
    }
  };
  await Promise.all(Array.from({ length: TOGETHER }, work));
  doing.progress(null);
  return { done, failures };
}

/** What cannot be taken back waits ten seconds, in which it can. */
function hold(text: string, deed: () => Promise<void>): void {
  const timer = setTimeout(() => void deed(), HELD_MS);
  tell({ text, tone: "quiet", undo: () => clearTimeout(timer) });
}

function report(
  done: number,
  failures: Failure[],
  good: { text: string; undo?: () => void; link?: { href: string; text: string } },
): void {
  if (done > 0) tell({ ...good, tone: "good" });
  else if (failures.length === 0) tell({ text: say("No changes were needed."), tone: "quiet" });
  const first = failures[0];
  if (first === undefined) return;
  const others = failures.length > 1 ? ` ${sayCount("{count} more failed.", "{count} more failed.", failures.length - 1)}` : "";
  tell({ text: `${first.name}: ${first.why}${others}`, tone: "bad" });
}

function pathOf(kind: Kind, name: string): string {
  return `${kind}s/${encodeURIComponent(name)}`;
}
