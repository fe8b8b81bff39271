/** The time range of all charts of a page, kept in its address. */

import { pageAddress } from "../services.ts";

export const RANGES = { "15m": 900, "3h": 10_800, "24h": 86_400 } as const;

export type Range = keyof typeof RANGES;

const FIRST: Range = "15m";

export function chosenRange(): Range {
  const asked = pageAddress.get("range") || reaching(pageAddress.get("at"));
  return asked in RANGES ? (asked as Range) : FIRST;
}

/** The shortest range that contains a time in the address, such as that of an alert. */
function reaching(time: string): Range {
  const behind_s = (Date.now() - Date.parse(time)) / 1000;
  const names = Object.keys(RANGES) as Range[];
  return Number.isNaN(behind_s) ? FIRST : (names.find((range) => RANGES[range] >= behind_s) ?? names.at(-1)!);
}

/** Puts the choice into the address. No new entry of the history: Back leaves the page in one step. */
export function chooseRange(range: Range): void {
  pageAddress.go({ range: range === FIRST ? null : range, at: null }, { replace: true });
}

/** `window_s` and `step_s` to ask the broker for: at most 180 steps for what is near, by the minute for a day. */
export function spanOf(range: Range): { window_s: number; step_s: number } {
  return { window_s: RANGES[range], step_s: range === "15m" ? 5 : range === "3h" ? 60 : 300 };
}
