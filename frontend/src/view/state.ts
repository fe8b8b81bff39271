import type { DestinationState } from "../generated/tables.ts";
import { gettext } from "../gettext.ts";

/** The sign of a state: shape, word and tone. */
export interface Look {
  word: string;
  tone: "good" | "quiet" | "warn" | "bad";
  shape: string;
}

export const STATE_SIGNS: Record<DestinationState, Look> = {
  "at-limit": { word: gettext("at limit"), tone: "bad", shape: "■" },
  "no-consumer": { word: gettext("no consumer"), tone: "warn", shape: "▲" },
  growing: { word: gettext("growing"), tone: "warn", shape: "▲" },
  paused: { word: gettext("paused"), tone: "quiet", shape: "‖" },
  flowing: { word: gettext("flowing"), tone: "good", shape: "●" },
  idle: { word: gettext("idle"), tone: "quiet", shape: "○" },
};

export function signOfState(state: DestinationState): Look {
  // A page may be older than the broker.
  return STATE_SIGNS[state] ?? { word: state, tone: "quiet", shape: "○" };
}
