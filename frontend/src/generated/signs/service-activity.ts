/** Written by `python -m tests.docs.generated`. */

import { gettext } from "../../gettext.ts";
import type { Sign } from "../../view/sign.ts";
import type { ServiceActivity } from "../tables.ts";

/** The sign of each `ServiceActivity`. */
export const SERVICE_ACTIVITY: Record<ServiceActivity, Sign> = {
  active: { word: gettext("active"), tone: "good", icon: "circle-check" },
  inactive: { word: gettext("inactive"), tone: "quiet", icon: "circle" },
};
