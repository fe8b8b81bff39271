/** Written by `python -m tests.docs.generated`. */

import { gettext } from "../../gettext.ts";
import type { Sign } from "../../view/sign.ts";
import type { Health } from "../tables.ts";

/** The sign of each `Health`. */
export const HEALTH: Record<Health, Sign> = {
  running: { word: gettext("running"), tone: "good", icon: "circle-check" },
  degraded: { word: gettext("degraded"), tone: "warn", icon: "triangle-alert" },
  stalled: { word: gettext("stalled"), tone: "bad", icon: "hourglass" },
  failing: { word: gettext("failing"), tone: "bad", icon: "circle-x" },
  paused: { word: gettext("paused"), tone: "quiet", icon: "circle-pause" },
  off: { word: gettext("off"), tone: "quiet", icon: "circle-off" },
};
