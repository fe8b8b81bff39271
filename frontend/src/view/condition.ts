import type { Destination } from "../live/rest.ts";

/** How a destination is doing, in the glossary's words. Its shape says it too, never colour alone. */
export interface Condition {
  word: "flowing" | "idle" | "no consumer" | "growing";
  tone: "good" | "quiet" | "warn";
  shape: "●" | "○" | "▲";
}

/** `growing` is the history's verdict: more in than out for two minutes. */
export function conditionOf(destination: Destination, growing: boolean): Condition {
  const waiting = destination.depth > 0 || destination.in_rate > 0;
  if (destination.kind !== "topic" && destination.consumers === 0 && waiting) {
    return { word: "no consumer", tone: "warn", shape: "▲" };
  }
  if (growing && destination.kind !== "topic") return { word: "growing", tone: "warn", shape: "▲" };
  const flowing = destination.in_rate > 0 || destination.out_rate > 0;
  return flowing ? { word: "flowing", tone: "good", shape: "●" } : { word: "idle", tone: "quiet", shape: "○" };
}
