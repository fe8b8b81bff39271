/** Units of values over time. */

import { gettext } from "../gettext.ts";
import { NONE, bytes, count, duration, perHour, rate } from "./format.ts";

/** The unit. Values of `rate` and `hourly` are messages per step, and are shown as messages per second, or per hour. */
export type Unit = "count" | "rate" | "hourly" | "seconds" | "bytes";

const WORDS: Record<Unit, (value: number) => string> = {
  count,
  rate: (value) => gettext("{rate}/s", { rate: rate(value) }),
  hourly: (value) => gettext("{rate}/h", { rate: perHour(value) }),
  seconds: (value) => {
    if (value > 0 && value < 1) return `${count(Math.max(1, value * 1000))} ms`;
    // Ticks of half minutes would have the label of the minute before them.
    return value === 0 || (value > 60 && value % 60 === 30) ? `${count(value)} s` : duration(value);
  },
  bytes,
};
/** Steps of an axis: whole numbers, and tenths where labels have them. Finer steps would give several ticks one label. */
const WHOLE = [1, 2, 5].flatMap((digit) => Array.from({ length: 10 }, (_, zeros) => digit * 10 ** zeros)).sort((a, b) => a - b);
/** 1 B, 2 B, 4 B, … */
const POWERS = Array.from({ length: 50 }, (_, power) => 2 ** power);
const TENTHS = [0.1, 0.2, 0.5, ...WHOLE];
export const AXIS_STEPS: Partial<Record<Unit, number[]>> = {
  count: WHOLE,
  rate: TENTHS,
  hourly: WHOLE,
  bytes: POWERS,
  seconds: [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1200, 3600, 7200, 21_600, 86_400, 604_800],
};
/** The lowest top of an axis, so that it has more than one label. */
export const LOWEST_TOP: Partial<Record<Unit, number>> = { rate: 0.5 };
/** The seconds for which values of these units are shown. */
const PER_S: Partial<Record<Unit, number>> = { rate: 1, hourly: 3600 };

/** A value with its unit. */
export function inUnit(value: number | null, unit: Unit): string {
  return value === null ? NONE : WORDS[unit](value);
}

/** Values of steps of so many seconds, as they are shown. */
export function shownValues(values: (number | null)[], unit: Unit, step_s: number): (number | null)[] {
  const per_s = PER_S[unit];
  return per_s ? values.map((value) => (value === null ? null : (value * per_s) / step_s)) : values;
}
