/** Numbers, sizes and times as the console writes them; times in the zone that was chosen. */

import { gettext } from "../gettext.ts";
import { language, regional } from "../language.ts";
import { zone } from "./zone.ts";

const whole = new Intl.NumberFormat(language, { maximumFractionDigits: 0 });
const tenth = new Intl.NumberFormat(language, { maximumFractionDigits: 1, minimumFractionDigits: 1 });
const few = new Intl.NumberFormat(language, { maximumSignificantDigits: 2 });
const full = new Intl.DateTimeFormat(regional, { dateStyle: "medium", timeStyle: "long", hourCycle: "h23", timeZone: zone() });

const clock = new Intl.DateTimeFormat(regional, { timeStyle: "medium", hourCycle: "h23", timeZone: zone() });

export const NONE = "–";

export function count(value: number): string {
  return whole.format(value);
}

/** Messages per second, with a decimal below ten. */
export function rate(value: number): string {
  return (value === 0 || value >= 10 ? whole : tenth).format(value);
}

/** Messages per hour, with digits enough to distinguish few of them. */
export function perHour(value: number): string {
  return (value < 10 ? few : whole).format(value);
}

export function bytes(value: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${unit === 0 || value >= 10 ? whole.format(value) : tenth.format(value)} ${units[unit]}`;
}

export function duration(seconds: number): string {
  if (seconds < 10) return `${tenth.format(seconds)} s`;
  if (seconds < 60) return `${Math.floor(seconds)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 86_400) return twoParts(seconds, 3600, "h", 60, "min");
  return twoParts(seconds, 86_400, "d", 3600, "h");
}

function twoParts(seconds: number, major: number, majorUnit: string, minor: number, minorUnit: string): string {
  const rest = Math.floor((seconds % major) / minor);
  return `${Math.floor(seconds / major)} ${majorUnit}${rest ? ` ${rest} ${minorUnit}` : ""}`;
}

/** "2 h 11 min ago"; a moment in the future (clocks differ) is "now". */
export function ago(time: string): string {
  const seconds = (Date.now() - Date.parse(time)) / 1000;
  return seconds < 1 ? gettext("now") : gettext("{span} ago", { span: duration(seconds) });
}

export function fullTime(time: string): string {
  return full.format(new Date(time));
}

/** Only the time of day, where the day is known. */
export function time(at: string): string {
  return clock.format(new Date(at));
}
