/** Alerts as REST tells them, in words and signs. */

import { say, sayCount } from "../say.ts";
import { count, duration } from "./format.ts";
import { bareName } from "./name.ts";

export interface Alert {
  id: string;
  rule: string;
  condition: string;
  severity: "warning" | "critical";
  subject: string;
  state: "firing" | "acknowledged" | "silenced" | "ended";
  detail: string;
  value: number;
  threshold: number;
  facts: Record<string, unknown>;
  since: string;
  fired_at: string;
  ended_at: string | null;
  by: string;
  reason: string;
  until: string | null;
  /** Below the console. */
  page: string;
}

/** A state as a colour, a shape and a word. */
export interface Sign {
  tone: "bad" | "warn" | "good" | "quiet";
  shape: string;
  word: string;
}

/** The sign of an alert's state. */
export function signOf({ state, severity }: Alert): Sign {
  if (state === "ended") return { tone: "good", shape: "●", word: say("ended") };
  if (state === "silenced") return { tone: "quiet", shape: "‖", word: say("silenced") };
  if (state === "acknowledged") return { tone: "quiet", shape: "○", word: say("acknowledged") };
  return severity === "critical" ? { tone: "bad", shape: "■", word: say("critical") } : { tone: "warn", shape: "▲", word: say("warning") };
}

/** What is wrong, in the language of the page; in the broker's words where the page has none. */
export function sentenceOf({ condition, subject, value, facts, detail }: Alert): string {
  const name = bareName(subject);
  const waiting = sayCount("{count} message waits", "{count} messages wait", value);
  switch (condition) {
    case "oldest":
      return say("{name}: the oldest message has waited {span}", { name, span: duration(value) });
    case "dead-letters":
      return say("{name} grew by {count} in 10 min", { name, count: count(value) });
    case "no-consumer":
      return say("{name}: {waiting}, no consumers", { name, waiting });
    case "bridge-stalled": {
      const error = facts.error ? ` (${String(facts.error)})` : "";
      const state = { failed: say("failed"), retrying: say("retrying") }[String(facts.state)] ?? say("stalled");
      return say("Bridge {name} is {state}: {waiting}", { name, state: state + error, waiting });
    }
    case "store":
      return say("Store usage: {percent} %", { percent: value });
    case "flapping":
      return say("{name} connected {count} times in 5 min", { name: subject, count: count(value) });
    case "configuration":
      return say("Configuration files were rejected: {detail}", { detail: String(facts.detail ?? "") });
    default:
      return detail;
  }
}
