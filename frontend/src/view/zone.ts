/** The time zone of the page: the cookie `mom_zone`, else that of the browser. */

import { language } from "../language.ts";

/** Its name as Intl knows it. */
export function zone(): string {
  const chosen = decodeURIComponent(/(?:^|; )mom_zone=([^;]*)/.exec(document.cookie)?.[1] ?? "");
  try {
    return new Intl.DateTimeFormat(language, { timeZone: chosen || undefined }).resolvedOptions().timeZone;
  } catch {
    return "UTC";
  }
}

/** By how many seconds the clocks of the zone are ahead of UTC at a time. */
export function offset(time_s: number): number {
  const whole = Math.floor(time_s);
  const local = new Date(whole * 1000).toLocaleString("sv-SE", { timeZone: zone() });
  return Date.parse(`${local.replace(" ", "T")}Z`) / 1000 - whole;
}

/** The short name of the zone: "UTC", "CET", "GMT+5:30". */
export function zoneName(): string {
  const parts = new Intl.DateTimeFormat(language, { timeZone: zone(), timeZoneName: "short" }).formatToParts(new Date());
  return parts.find(({ type }) => type === "timeZoneName")?.value ?? zone();
}
