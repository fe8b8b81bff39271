/** An action on one or many destinations: confirmation with a preview, requests a few at a time, and the report. */

import type { TemplateResult } from "lit";
import { confirmAction, type Answer, type Question } from "../confirm-dialog.ts";
import { gettext, ngettext } from "../gettext.ts";
import { errorText } from "../live/requests.ts";
import { showToast } from "../toasts.ts";
import { count } from "../view/format.ts";
import type { Kind } from "./address.ts";
import type { DestinationStats } from "./stats.ts";

/** The maximum number of destinations per action. */
const MOST = 200;
/** Concurrent requests. */
const TOGETHER = 4;

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

interface Confirmation extends Omit<Question, "dryRun"> {
  preview: (rows: DestinationStats[]) => string | TemplateResult | Promise<string | TemplateResult>;
}

/** The selected rows after confirmation with a preview; null when it was cancelled. */
export async function confirmed(operation: Operation, { preview, ...question }: Confirmation): Promise<{ rows: DestinationStats[]; reason: string } | null> {
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

export function objects({ kind, number, name }: Operation): string {
  if (number === 1) return name;
  return kind === "queue" ? ngettext("{count} queue", "{count} queues", number) : ngettext("{count} topic", "{count} topics", number);
}

export function typedFor({ number, name }: Operation): string {
  return number === 1 ? name : String(number);
}

/** Run an action for each item, a few at a time. */
export async function each<Item extends { name: string }>(
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

export function report(done: number, failures: Failure[], good: { text: string; undo?: () => void; link?: { href: string; text: string } }): void {
  if (done > 0) showToast({ ...good, tone: "good" });
  else if (failures.length === 0) showToast({ text: gettext("No changes were needed."), tone: "quiet" });
  const first = failures[0];
  if (first === undefined) return;
  const others = failures.length > 1 ? ` ${ngettext("{count} more failed.", "{count} more failed.", failures.length - 1)}` : "";
  showToast({ text: `${first.name}: ${first.why}${others}`, tone: "bad" });
}
