/** Written by `python -m tests.docs.generated`. */

import { gettext } from "../../gettext.ts";
import type { Sign } from "../../view/sign.ts";
import type { Severity } from "../tables.ts";

/** The sign of each `Severity`. */
export const SEVERITY: Record<Severity, Sign> = {
  warning: { word: gettext("warning"), tone: "warn", icon: "triangle-alert" },
  critical: { word: gettext("critical"), tone: "bad", icon: "octagon-alert" },
};
