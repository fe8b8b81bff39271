/** The path of a message, from its headers and its status. */

import { gettext, ngettext } from "../gettext.ts";
import type { Message } from "./requests.ts";

export interface Station {
  /** RFC 3339, where it is known. */
  time?: string;
  text: string;
  tone?: "good" | "warn" | "bad";
}

/** Where a dead letter died, bare; "" for a message that is none. */
export function originOf({ headers }: Message): string {
  return (headers.origin ?? "").replace(/^\/queue\//, "");
}

/** Why it died: the detail, or the reason where there is none. */
export function reasonOf({ headers }: Message): string {
  return headers["dead-detail"] || headers["dead-reason"] || "";
}

export function pathOf(message: Message, queue: string): Station[] {
  const { headers } = message;
  const origin = originOf(message);
  if (!origin) {
    return [
      { time: message.time, text: gettext("published to {queue}", { queue }) },
      ...(message.attempt > 1 ? [{ text: ngettext("delivered {count} time", "delivered {count} times", message.attempt - 1) }] : []),
      nowOf(message),
    ];
  }
  const topic = headers["origin-topic"]?.replace(/^\/topic\//, "");
  const attempts = Number(headers["dead-attempts"] ?? 0);
  const consumer = headers["dead-consumer"];
  const handed = ngettext("delivered {count} time", "delivered {count} times", attempts);
  return [
    { ...at(headers["sent-at"]), text: topic ? gettext("published to topic {topic}", { topic }) : gettext("published") },
    { text: gettext("waited in {queue}", { queue: origin }) },
    ...(attempts > 0 ? [{ text: consumer ? gettext("{handed}, most recently to {consumer}", { handed, consumer }) : handed }] : []),
    {
      ...at(headers["dead-at"]),
      text: gettext("dead-lettered: {why}", { why: [headers["dead-reason"], headers["dead-detail"]].filter(Boolean).join(", ") }),
      tone: "bad" as const,
    },
    { time: message.time, text: gettext("moved to {queue}", { queue }) },
    nowOf(message),
  ];
}

function at(ms: string | undefined): { time?: string } {
  return ms && /^\d{1,15}$/.test(ms) ? { time: new Date(Number(ms)).toISOString() } : {};
}

function nowOf({ state, due }: Message): Station {
  if (state === "unsettled") return { text: gettext("delivered and not yet settled"), tone: "good" };
  if (due) return { time: due, text: gettext("due") };
  return { text: gettext("waiting") };
}
