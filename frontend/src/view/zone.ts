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

/** The short name of the zone: "UTC", "CET", "GMT+5:30". */
export function zoneName(): string {
  const parts = new Intl.DateTimeFormat(language, { timeZone: zone(), timeZoneName: "short" }).formatToParts(new Date());
  return parts.find(({ type }) => type === "timeZoneName")?.value ?? zone();
}
