/** Statistics of former days, which the data pipeline has stored, and how they complete what a node has in memory. */

import { pathOf, type Kind } from "../destinations/address.ts";
import { steps, type Columns } from "./columns.ts";
import { read } from "./requests.ts";

/** The reply of `GET …/history`; `series.computed` is the part of each step that is known, from 0 to 1. */
export interface StoredHistory extends Columns {
  /** First minute that is stored, and the end of the last; null if there is none. */
  stored_from: string | null;
  stored_to: string | null;
}

/** Columns of messages within a step. */
const COUNTS = ["in", "out", "acked", "redelivered", "dead", "expired", "discarded"];
/** The columns that have the same meaning in memory. */
const SHARED = ["in", "out", "acked", "dead", "expired"];

export async function readStored(kind: Kind, name: string, window_s: number, step_s: number): Promise<StoredHistory> {
  const found = await read<StoredHistory>(pathOf(kind, name, "history", { window_s, step_s }));
  return withRates(found);
}

/** Counts of a step that is known in part, as those of the whole step: they are shown as rates. */
function withRates(found: StoredHistory): StoredHistory {
  const computed = found.series.computed ?? [];
  const series = { ...found.series };
  for (const key of COUNTS) {
    series[key] = (found.series[key] ?? []).map((value, at) => (value === null || !computed[at] ? null : value / computed[at]));
  }
  return { ...found, series };
}

/** The part of the time that was computed, from 0 to 1. */
export function computedPart({ series }: StoredHistory): number {
  const parts = series.computed ?? [];
  return parts.reduce<number>((sum, part) => sum + (part ?? 0), 0) / Math.max(1, parts.length);
}

/** What a node has in memory, and for steps of before its start what is stored. */
export function completed(columns: Columns, stored: StoredHistory): Columns {
  if (columns.step_s !== stored.step_s) return columns;
  const offset = Math.round((columns.t0 - stored.t0) / stored.step_s);
  const series: Columns["series"] = { ...columns.series };
  for (const key of SHARED) {
    series[key] = (columns.series[key] ?? []).map((value, at) => value ?? stored.series[key]?.[at + offset] ?? null);
  }
  return { ...columns, series };
}

/** Whether there is any value. */
export function hasValues(columns: Columns, ...keys: string[]): boolean {
  return steps(columns) > 0 && keys.some((key) => columns.series[key]?.some((value) => value !== null));
}
