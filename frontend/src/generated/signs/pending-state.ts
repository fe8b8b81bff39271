/** Written by `python -m tests.docs.generated`. */

import { gettext } from "../../gettext.ts";
import type { Sign } from "../../view/sign.ts";
import type { PendingState } from "../tables.ts";

/** The sign of each `PendingState`. */
export const PENDING_STATE: Record<PendingState, Sign> = {
  waiting: { word: gettext("waiting"), tone: "quiet", icon: "circle" },
  fetching: { word: gettext("being fetched"), tone: "quiet", icon: "loader" },
  fetched: { word: gettext("held by a consumer"), tone: "good", icon: "circle-check" },
  settling: { word: gettext("being settled"), tone: "good", icon: "loader" },
};
