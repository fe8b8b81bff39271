/** One sentence that says how something is doing: the head of its page. What it is made of stands below it. */

import { gettext, ngettext } from "../gettext.ts";
import type { Kind } from "../destinations/address.ts";
import { nameOf, type Connection, type Consumer } from "./connection.ts";
import { count, duration, rate } from "./format.ts";

/** What a sentence about a destination is made of. */
export interface Situation {
  state: string;
  paused: string;
  consumers: number;
  depth?: number;
  unsettled?: number;
  oldest_s?: number;
  in_rate?: number;
  out_rate?: number;
}

/** How a queue or topic is doing. */
export function verdictOfDestination(kind: Kind, now: Situation): string {
  return kind === "queue" ? ofQueue(now) : ofTopic(now);
}

function ofQueue({ state, paused, consumers, depth = 0, unsettled = 0, oldest_s = 0, in_rate = 0, out_rate = 0 }: Situation): string {
  const flow = { in: rate(in_rate), out: rate(out_rate) };
  const waiting = ngettext("{count} message waits", "{count} messages wait", depth);
  const oldest = duration(oldest_s);
  if (paused !== "none") return depth ? gettext("An operator has paused it; {waiting}.", { waiting }) : gettext("An operator has paused it; nothing waits.");
  switch (state) {
    case "at-limit":
      return gettext("Its limit is reached with {count} messages: new ones are refused, or the oldest are dropped.", { count: count(depth + unsettled) });
    case "no-consumer":
      return gettext("{waiting}, and there is no consumer; the oldest came {oldest} ago.", { waiting, oldest });
    case "growing":
      return unsettled
        ? gettext("Grows by {more}/s: {in}/s come in, {out}/s go out, and its consumers hold {held}.", {
            more: rate(in_rate - out_rate),
            ...flow,
            held: count(unsettled),
          })
        : gettext("Grows by {more}/s: {in}/s come in, {out}/s go out.", { more: rate(in_rate - out_rate), ...flow });
    case "flowing":
      return depth
        ? gettext("{in}/s come in, {out}/s go out; {waiting}, the oldest for {oldest}.", { ...flow, waiting, oldest })
        : gettext("{in}/s come in, {out}/s go out; nothing waits.", flow);
    default:
      if (depth && unsettled) return gettext("Nothing moves: {waiting} while consumers hold {held}.", { waiting, held: count(unsettled) });
      if (depth) return gettext("Nothing moves; {waiting}, the oldest for {oldest}.", { waiting, oldest });
      if (unsettled) return ngettext("Busy: {count} message is with a consumer.", "Busy: {count} messages are with consumers.", unsettled);
      return consumers
        ? ngettext("Nothing waits; {count} consumer is ready.", "Nothing waits; {count} consumers are ready.", consumers)
        : gettext("Nothing waits and nothing moves.");
  }
}

function ofTopic({ paused, consumers, in_rate = 0, out_rate = 0 }: Situation): string {
  if (paused !== "none") return gettext("An operator has paused it.");
  if (in_rate > 0) {
    return consumers
      ? ngettext("{in}/s come in; {count} subscriber receives {out}/s.", "{in}/s come in; {count} subscribers receive {out}/s in all.", consumers, {
          in: rate(in_rate),
          out: rate(out_rate),
        })
      : gettext("{in}/s come in, and there are no subscribers.", { in: rate(in_rate) });
  }
  return consumers
    ? ngettext("Nothing is published; {count} subscriber waits.", "Nothing is published; {count} subscribers wait.", consumers)
    : gettext("Nothing is published, and there are no subscribers.");
}

/** How a client is doing; what is slow or full comes first. */
export function verdictOfConnection(connection: Connection, consumers: Consumer[]): string {
  const client = nameOf(connection);
  const flow = { client, in: rate(connection.in_rate), out: rate(connection.out_rate) };
  if (connection.closed_at !== null) return gettext("{client} has disconnected: {reason}", { client, reason: connection.reason ?? "" });
  if (connection.throttled) return gettext("{client} sends too fast: the broker holds back what it sends.", { client });
  if (connection.congested) return gettext("{client} does not read what the broker has sent.", { client });
  const full = consumers.find(({ credit, unsettled }) => credit > 0 && unsettled >= credit);
  if (full) {
    const { destination } = full;
    return gettext("{client} holds {held} messages of {destination}, all that its credit allows: it gets more as it settles them.", {
      client,
      destination,
      held: count(full.unsettled),
    });
  }
  if (connection.in_rate === 0 && connection.out_rate === 0) return gettext("{client} is connected and quiet.", { client });
  if (consumers.length === 0) return gettext("{client} sends {in} frames/s and subscribes to nothing.", flow);
  return gettext("{client} sends {in} and receives {out} frames/s; {held} messages are unsettled.", { ...flow, held: count(connection.unsettled) });
}
