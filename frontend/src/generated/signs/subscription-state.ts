/** Written by `python -m tests.docs.generated`. */

import { gettext } from "../../gettext.ts";
import type { Sign } from "../../view/sign.ts";
import type { SubscriptionState } from "../tables.ts";

/** The sign of each `SubscriptionState`. */
export const SUBSCRIPTION_STATE: Record<SubscriptionState, Sign> = {
  offline: { word: gettext("offline"), tone: "warn", icon: "triangle-alert" },
  stalled: { word: gettext("stalled"), tone: "warn", icon: "triangle-alert" },
  active: { word: gettext("active"), tone: "good", icon: "circle-check" },
};
