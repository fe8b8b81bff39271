/** Written by `python -m tests.docs.generated`. */

import { gettext } from "../../gettext.ts";
import type { Sign } from "../../view/sign.ts";
import type { JobState } from "../tables.ts";

/** The sign of each `JobState`. */
export const JOB_STATE: Record<JobState, Sign> = {
  waiting: { word: gettext("waiting"), tone: "quiet", icon: "circle-dashed" },
  running: { word: gettext("running"), tone: "accent", icon: "loader" },
  done: { word: gettext("done"), tone: "good", icon: "circle-check" },
  cancelled: { word: gettext("cancelled"), tone: "quiet", icon: "circle-off" },
  stopped: { word: gettext("stopped by errors"), tone: "bad", icon: "octagon-alert" },
  failed: { word: gettext("failed"), tone: "bad", icon: "circle-x" },
};
