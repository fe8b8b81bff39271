import { say } from "../say.ts";

/** How a state looks and what it is called: shape, word and tone together. */
export interface Look {
  word: string;
  tone: "good" | "quiet" | "warn" | "bad";
  shape: string;
}

/** The states of `telemetry/health.py`, the worst first. */
export const LOOKS: Record<string, Look> = {
  "at-limit": { word: say("at limit"), tone: "bad", shape: "■" },
  "no-consumer": { word: say("no consumer"), tone: "warn", shape: "▲" },
  growing: { word: say("growing"), tone: "warn", shape: "▲" },
  paused: { word: say("paused"), tone: "quiet", shape: "‖" },
  flowing: { word: say("flowing"), tone: "good", shape: "●" },
  idle: { word: say("idle"), tone: "quiet", shape: "○" },
};

export function lookOf(state: string): Look {
  return LOOKS[state] ?? { word: state, tone: "quiet", shape: "○" };
}
