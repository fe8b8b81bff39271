/** A message that is written, and what it takes of one that is there already. */

import { DEAD_LETTER_HEADERS, DEFAULT_PRIORITY } from "../generated/messages.ts";
import type { Message } from "./requests.ts";

/** Headers that the form has fields for, that are the protocol's own, or that dead letters have. */
const RESERVED = new Set<string>(["destination", "content-type", "content-length", "persistent", "priority", "receipt", "transaction", ...DEAD_LETTER_HEADERS]);

/** A message to publish. Times are in seconds. */
export interface Draft {
  /** With its kind: /queue/orders. */
  destination: string;
  body: string;
  contentType: string;
  headers: Record<string, string>;
  persistent: boolean;
  priority: number;
  delay_s?: number;
  expires_s?: number;
  reply_to?: string;
  correlation_id?: string;
  type?: string;
  dedup_id?: string;
}

/** All but the destination and the headers. */
export type Content = Omit<Draft, "destination" | "headers">;

export const EMPTY: Content = { body: "", contentType: "application/json", persistent: true, priority: DEFAULT_PRIORITY };

/** Another message like this one; its body is read separately. */
export function draftOf(message: Message): Content {
  return {
    body: "",
    contentType: message.content_type ?? "",
    persistent: message.persistent,
    priority: message.priority,
    ...(message.type && { type: message.type }),
    ...(message.correlation_id && { correlation_id: message.correlation_id }),
    ...(message.reply_to && { reply_to: message.reply_to }),
  };
}

/** The headers that an application gives a message. */
export function ownHeaders(headers: Record<string, string>): Record<string, string> {
  return Object.fromEntries(Object.entries(headers).filter(([name]) => name !== "" && !RESERVED.has(name.toLowerCase())));
}
