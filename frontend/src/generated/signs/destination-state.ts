/** Written by `python -m tests.docs.generated`. */

import { gettext } from "../../gettext.ts";
import type { Sign } from "../../view/sign.ts";
import type { DestinationState } from "../tables.ts";

/** The sign of each `DestinationState`. */
export const DESTINATION_STATE: Record<DestinationState, Sign> = {
  "at-limit": { word: gettext("at limit"), tone: "bad", icon: "octagon-alert" },
  "no-consumer": { word: gettext("no consumer"), tone: "warn", icon: "user-x" },
  growing: { word: gettext("growing"), tone: "warn", icon: "trending-up" },
  paused: { word: gettext("paused"), tone: "quiet", icon: "circle-pause" },
  flowing: { word: gettext("flowing"), tone: "good", icon: "activity" },
  idle: { word: gettext("idle"), tone: "quiet", icon: "circle" },
};
