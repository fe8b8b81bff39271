/** Written by `python -m tests.docs.generated`. */

import { gettext } from "../../gettext.ts";
import type { Sign } from "../../view/sign.ts";
import type { OriginState } from "../tables.ts";

/** The sign of each `OriginState`. */
export const ORIGIN_STATE: Record<OriginState, Sign> = {
  connecting: { word: gettext("connecting"), tone: "warn", icon: "triangle-alert" },
  connected: { word: gettext("connected"), tone: "good", icon: "circle-check" },
};
