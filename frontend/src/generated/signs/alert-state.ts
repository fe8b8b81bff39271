/** Written by `python -m tests.docs.generated`. */

import { gettext } from "../../gettext.ts";
import type { Sign } from "../../view/sign.ts";
import type { AlertState } from "../tables.ts";

/** The sign of each `AlertState`. */
export const ALERT_STATE: Record<AlertState, Sign> = {
  firing: { word: gettext("firing"), tone: "bad", icon: "octagon-alert" },
  acknowledged: { word: gettext("acknowledged"), tone: "quiet", icon: "user" },
  silenced: { word: gettext("silenced"), tone: "quiet", icon: "bell-off" },
  ended: { word: gettext("ended"), tone: "good", icon: "circle-check" },
};
