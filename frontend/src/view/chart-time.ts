/** Times on the axis and in the lists of a chart, in the zone of the page. */

import { regional } from "../language.ts";
import { steps, type Columns } from "../live/columns.ts";
import { zone } from "./zone.ts";

const LONG_S = 12 * 3600;
/** A chart of more than this has days on its axis. */
const DAYS_S = 36 * 3600;
const CLOCK = { hour: "2-digit", minute: "2-digit", hourCycle: "h23" } as const;
const SECONDS = { second: "2-digit" } as const;
const DAY = { day: "numeric", month: "short" } as const;

/** A moment, with its day where the chart has several. */
export function clock(time_s: number, columns: Columns): string {
  return written(time_s, { ...CLOCK, ...(exceeds(columns, DAYS_S) ? DAY : SECONDS) });
}

/** The label of an axis: the day where one begins, else the time of day, with seconds where a short chart needs them. */
export function tick(time_s: number, columns: Columns): string {
  const time = written(time_s, { ...CLOCK, ...(!exceeds(columns, LONG_S) && time_s % 60 !== 0 && SECONDS) });
  return exceeds(columns, DAYS_S) && time === "00:00" ? written(time_s, DAY) : time;
}

/** Whether the chart is longer than so many seconds. */
function exceeds(columns: Columns, span_s: number): boolean {
  return columns.step_s * steps(columns) > span_s;
}

function written(time_s: number, parts: Intl.DateTimeFormatOptions): string {
  return new Date(time_s * 1000).toLocaleString(regional, { ...parts, timeZone: zone() });
}
