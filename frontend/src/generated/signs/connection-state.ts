/** Written by `python -m tests.docs.generated`. */

import { gettext } from "../../gettext.ts";
import type { Sign } from "../../view/sign.ts";
import type { ConnectionState } from "../tables.ts";

/** The sign of each `ConnectionState`. */
export const CONNECTION_STATE: Record<ConnectionState, Sign> = {
  disconnected: { word: gettext("disconnected"), tone: "quiet", icon: "circle" },
  draining: { word: gettext("draining"), tone: "warn", icon: "loader" },
  slow: { word: gettext("slow"), tone: "warn", icon: "triangle-alert" },
  congested: { word: gettext("not reading"), tone: "warn", icon: "triangle-alert" },
  throttled: { word: gettext("throttled"), tone: "warn", icon: "circle-pause" },
  connected: { word: gettext("connected"), tone: "good", icon: "circle-check" },
};
