/** Written by `python -m tests.docs.generated`. */

import { gettext } from "../../gettext.ts";
import type { Sign } from "../../view/sign.ts";
import type { FlowState } from "../tables.ts";

/** The sign of each `FlowState`. */
export const FLOW_STATE: Record<FlowState, Sign> = {
  suspended: { word: gettext("suspended"), tone: "quiet", icon: "circle-pause" },
  starting: { word: gettext("starting"), tone: "quiet", icon: "circle" },
  running: { word: gettext("running"), tone: "good", icon: "circle-check" },
  retrying: { word: gettext("retrying"), tone: "warn", icon: "triangle-alert" },
  stalled: { word: gettext("stalled"), tone: "bad", icon: "hourglass" },
  failed: { word: gettext("failed"), tone: "bad", icon: "circle-x" },
};
