import type { DestinationState } from "../generated/tables.ts";
import { gettext } from "../gettext.ts";
import { unknownSign, type Sign } from "./sign.ts";

export const STATE_SIGNS: Record<DestinationState, Sign> = {
  "at-limit": { word: gettext("at limit"), tone: "bad", shape: "■" },
  "no-consumer": { word: gettext("no consumer"), tone: "warn", shape: "▲" },
  growing: { word: gettext("growing"), tone: "warn", shape: "▲" },
  paused: { word: gettext("paused"), tone: "quiet", shape: "‖" },
  flowing: { word: gettext("flowing"), tone: "good", shape: "●" },
  idle: { word: gettext("idle"), tone: "quiet", shape: "○" },
};

export function signOfState(state: DestinationState): Sign {
  return STATE_SIGNS[state] ?? unknownSign(state);
}
