/** Actions on one or many destinations, each with preview, result and undo. */

import { html, nothing, type TemplateResult } from "lit";
import { confirmAction, type Answer, type Question } from "../confirm-dialog.ts";
import { request, errorText } from "../live/requests.ts";
import { consolePage, pageOf } from "../pages.ts";
import { gettext, ngettext } from "../gettext.ts";
import { showToast } from "../toasts.ts";
import { count, duration } from "../view/format.ts";
import type { DestinationStats, Kind } from "./stats.ts";

/** The maximum number of destinations per action. */
export const MOST = 200;
/** Concurrent requests. */
const TOGETHER = 4;
/** The delay of actions that cannot be undone. */
const HELD_MS = 10_000;

export type Action = "pause" | "resume" | "purge" | "export" | "delete";

export interface Operation {
  kind: Kind;
  /** Loads the selected rows. */
  chosen: () => Promise<DestinationStats[]>;
  /** The number of destinations, and the name if it is one. */
  number: number;
  name: string;
  /** Reports progress; null at the end. */
  progress: (text: string | null) => void;
  /** Called after changes. */
  done: () => void;
}

interface Failure {
  name: string;
  why: string;
}

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
  const chosen = await sure(operation, {
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

// ------------------------------------------------------------------ jobs: purge, export

interface Plan {
  plan: string;
  matches: number;
  oldest: string | null;
}

async function plans(operation: Operation, op: "purge" | "export", rows: DestinationStats[]): Promise<Map<string, Plan>> {
  const found = new Map<string, Plan>();
  const { failures } = await each(operation, rows, async (row) => {
    found.set(row.name, await request<Plan>("POST", "jobs", { op, source: row.name, dry_run: true }));
  });
  if (found.size === 0 && failures.length > 0) throw new Error(`${failures[0]!.name}: ${failures[0]!.why}`);
  return found;
}

function previewText(found: Map<string, Plan>, rows: DestinationStats[]): TemplateResult {
  const all = [...found.values()];
  const messages = all.reduce((sum, plan) => sum + plan.matches, 0);
  const oldest = all.flatMap((plan) => (plan.oldest ? [plan.oldest] : [])).sort()[0];
  const unsettled = rows.reduce((sum, row) => sum + row.unsettled, 0);
  const age = oldest && duration(Math.max(0, (Date.now() - Date.parse(oldest)) / 1000));
  return html`${ngettext("{count} message", "{count} messages", messages)}${age ? html`, ${gettext("the oldest is {age} old", { age })}` : nothing}.
  ${unsettled ? ngettext("{count} is unsettled and is kept.", "{count} are unsettled and are kept.", unsettled) : nothing}
  ${found.size < rows.length ? gettext("Failed for {count}.", { count: count(rows.length - found.size) }) : nothing}`;
}

async function purge(operation: Operation): Promise<void> {
  let found = new Map<string, Plan>();
  const on = objects(operation);
  const chosen = await sure(operation, {
    title: gettext("Purge {on}", { on }),
    effect: gettext("All ready messages are deleted permanently. Unsettled messages stay with their consumers."),
    button: gettext("Purge"),
    danger: true,
    typed: typedFor(operation),
    preview: async (rows) => {
      found = await plans(operation, "purge", rows);
      return previewText(found, rows);
    },
  });
  if (chosen === null) return;
  const messages = [...found.values()].reduce((sum, plan) => sum + plan.matches, 0);
  hold(ngettext("{count} message is purged in ten seconds.", "{count} messages are purged in ten seconds.", messages), () =>
    run(operation, found, chosen.reason, ngettext("{count} queue is being purged.", "{count} queues are being purged.", found.size)),
  );
}

async function exported(operation: Operation): Promise<void> {
  let found = new Map<string, Plan>();
  const chosen = await sure(operation, {
    title: gettext("Export {on}", { on: objects(operation) }),
    effect: gettext("All ready messages are written to one file of JSON lines per queue. They also stay in the queue."),
    button: gettext("Export"),
    preview: async (rows) => {
      found = await plans(operation, "export", rows);
      return previewText(found, rows);
    },
  });
  if (chosen !== null) {
    await run(operation, found, chosen.reason, ngettext("{count} queue is being exported.", "{count} queues are being exported.", found.size));
  }
}

async function run(operation: Operation, found: Map<string, Plan>, reason: string, text: string): Promise<void> {
  const { done, failures } = await each(
    operation,
    [...found].map(([name, { plan }]) => ({ name, plan })),
    ({ plan }) => request("POST", "jobs", { plan }, reason),
  );
  operation.done();
  report(done.length, failures, { text, link: { href: consolePage("jobs/"), text: gettext("Jobs") } });
}

// ------------------------------------------------------------------ delete

async function removed(operation: Operation): Promise<void> {
  const on = objects(operation);
  const chosen = await sure(operation, {
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
  hold(ngettext("{count} queue is deleted in ten seconds.", "{count} queues are deleted in ten seconds.", chosen.rows.length), async () => {
    const { done, failures } = await each(operation, chosen.rows, (row) =>
      request("DELETE", `${pathOf(operation.kind, row.name)}?force=true`, undefined, chosen.reason, "*"),
    );
    operation.done();
    report(done.length, failures, { text: ngettext("{count} deleted.", "{count} deleted.", done.length) });
  });
}

// ------------------------------------------------------------------ a new one

/** Ask for a name, and create a queue or topic. Resolves to the name, or to null. */
export async function create(kind: Kind): Promise<string | null> {
  const answer = await confirmAction({
    title: kind === "queue" ? gettext("New queue") : gettext("New topic"),
    effect:
      kind === "queue"
        ? gettext("A queue keeps messages until a consumer acknowledges them. Dots in its name create branches in the tree.")
        : gettext("A topic delivers each message to all its subscribers. Dots in its name create levels for wildcards."),
    button: gettext("Create"),
    fields: html`<label>${gettext("Name")}<input name="name" required maxlength="255" autocomplete="off" spellcheck="false" autofocus /></label>
      <label>${gettext("Maximum number of messages; empty: no limit")}<input name="most" type="number" min="1" step="1" /></label>`,
  });
  if (answer === null) return null;
  const name = String(answer.fields.get("name") ?? "").trim();
  const most = Number(answer.fields.get("most"));
  try {
    await request("PUT", pathOf(kind, name), most ? { max_messages: most } : {}, answer.reason);
  } catch (fault) {
    showToast({ text: errorText(fault), tone: "bad" });
    return null;
  }
  showToast({ text: gettext("{name} was created.", { name }), tone: "good", link: { href: pageOf(`/${kind}/${name}`), text: gettext("Open") } });
  return name;
}

// ------------------------------------------------------------------ what all have in common

interface Sure extends Omit<Question, "dryRun"> {
  preview: (rows: DestinationStats[]) => string | TemplateResult | Promise<string | TemplateResult>;
}

/** The selected rows after confirmation with a preview; null when it was cancelled. */
async function sure(operation: Operation, { preview, ...question }: Sure): Promise<{ rows: DestinationStats[]; reason: string } | null> {
  let rows: DestinationStats[] = [];
  const answer: Answer | null = await confirmAction({
    ...question,
    dryRun: async () => {
      rows = await operation.chosen();
      if (rows.length > MOST)
        throw new Error(
          gettext("At most {most} at a time, but {count} are selected. Select fewer, or use a filter.", { most: MOST, count: count(rows.length) }),
        );
      try {
        return await preview(rows);
      } finally {
        operation.progress(null);
      }
    },
  });
  return answer === null ? null : { rows, reason: answer.reason };
}

function objects({ kind, number, name }: Operation): string {
  if (number === 1) return name;
  return kind === "queue" ? ngettext("{count} queue", "{count} queues", number) : ngettext("{count} topic", "{count} topics", number);
}

function typedFor({ number, name }: Operation): string {
  return number === 1 ? name : String(number);
}

/** Run an action for each item, a few at a time. */
async function each<Item extends { name: string }>(
  operation: Operation,
  items: Item[],
  action: (item: Item) => Promise<unknown>,
): Promise<{ done: Item[]; failures: Failure[] }> {
  const done: Item[] = [];
  const failures: Failure[] = [];
  const waiting = items.values();
  const work = async () => {
    for (const item of waiting) {
      try {
        await action(item);
        done.push(item);
      } catch (fault) {
        failures.push({ name: item.name, why: errorText(fault) });
      }
      if (items.length > 1) operation.progress(gettext("{done} of {all}", { done: done.length + failures.length, all: items.length }));
    }
  };
  await Promise.all(Array.from({ length: TOGETHER }, work));
  operation.progress(null);
  return { done, failures };
}

/** Run an action that cannot be undone after ten seconds, unless it is cancelled. */
function hold(text: string, action: () => Promise<void>): void {
  const timer = setTimeout(() => void action(), HELD_MS);
  showToast({ text, tone: "quiet", undo: () => clearTimeout(timer) });
}

function report(done: number, failures: Failure[], good: { text: string; undo?: () => void; link?: { href: string; text: string } }): void {
  if (done > 0) showToast({ ...good, tone: "good" });
  else if (failures.length === 0) showToast({ text: gettext("No changes were needed."), tone: "quiet" });
  const first = failures[0];
  if (first === undefined) return;
  const others = failures.length > 1 ? ` ${ngettext("{count} more failed.", "{count} more failed.", failures.length - 1)}` : "";
  showToast({ text: `${first.name}: ${first.why}${others}`, tone: "bad" });
}

function pathOf(kind: Kind, name: string): string {
  return `${kind}s/${encodeURIComponent(name)}`;
}
