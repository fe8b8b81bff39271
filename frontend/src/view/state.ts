import type { DestinationState } from "../generated/tables.ts";
import { gettext } from "../gettext.ts";
import { unknownSign, type Sign } from "./sign.ts";

export const STATE_SIGNS: Record<DestinationState, Sign> = {
  "at-limit": { word: gettext("at limit"), tone: "bad", icon: "octagon-alert" },
  "no-consumer": { word: gettext("no consumer"), tone: "warn", icon: "user-x" },
  growing: { word: gettext("growing"), tone: "warn", icon: "trending-up" },
  paused: { word: gettext("paused"), tone: "quiet", icon: "circle-pause" },
  flowing: { word: gettext("flowing"), tone: "good", icon: "activity" },
  idle: { word: gettext("idle"), tone: "quiet", icon: "circle" },
};

export function signOfState(state: DestinationState): Sign {
  return STATE_SIGNS[state] ?? unknownSign(state);
}
