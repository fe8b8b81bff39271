/** The time range of all charts of a page, kept in its address. */

import { pageAddress } from "../services.ts";

const DAY_S = 86_400;
/** By name how far back it reaches, and its steps: what a node has in memory, and what only the data pipeline has stored. */
export const RANGES = {
  "15m": { window_s: 900, step_s: 5 },
  "3h": { window_s: 10_800, step_s: 60 },
  "24h": { window_s: DAY_S, step_s: 300 },
  "7d": { window_s: 7 * DAY_S, step_s: 3600 },
  "30d": { window_s: 30 * DAY_S, step_s: 14_400 },
  "90d": { window_s: 90 * DAY_S, step_s: 43_200 },
} as const;

export type Range = keyof typeof RANGES;

export const ALL = Object.keys(RANGES) as readonly Range[];
/** The ranges of figures in memory. */
export const IN_MEMORY = ALL.slice(0, 3);

const FIRST: Range = "15m";

/** The range in the address, if it is one of `ranges`. */
export function chosenRange(ranges: readonly Range[] = IN_MEMORY): Range {
  const asked = pageAddress.get("range") || reaching(pageAddress.get("at"));
  return ranges.find((range) => range === asked) ?? FIRST;
}

/** The shortest range in memory that contains a time in the address, such as that of an alert. */
function reaching(time: string): Range {
  const behind_s = (Date.now() - Date.parse(time)) / 1000;
  return Number.isNaN(behind_s) ? FIRST : (IN_MEMORY.find((range) => RANGES[range].window_s >= behind_s) ?? IN_MEMORY.at(-1)!);
}

/** Puts the choice into the address. No new entry of the history: Back leaves the page in one step. */
export function chooseRange(range: Range): void {
  pageAddress.go({ range: range === FIRST ? null : range, at: null }, { replace: true });
}
