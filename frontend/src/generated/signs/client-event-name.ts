/** Written by `python -m tests.docs.generated`. */

import { gettext } from "../../gettext.ts";
import type { Sign } from "../../view/sign.ts";
import type { ClientEventName } from "../tables.ts";

/** The sign of each `ClientEventName`. */
export const CLIENT_EVENT_NAME: Record<ClientEventName, Sign> = {
  connected: { word: gettext("connected"), tone: "quiet", icon: "circle" },
  subscribed: { word: gettext("subscribed"), tone: "quiet", icon: "circle" },
  unsubscribed: { word: gettext("unsubscribed"), tone: "quiet", icon: "circle" },
  slow: { word: gettext("slow"), tone: "warn", icon: "triangle-alert" },
  recovered: { word: gettext("reads messages again"), tone: "quiet", icon: "circle" },
  refused: { word: gettext("refused"), tone: "bad", icon: "circle-x" },
  draining: { word: gettext("drained"), tone: "warn", icon: "triangle-alert" },
  disconnecting: { word: gettext("closed by an operator"), tone: "bad", icon: "circle-x" },
  closed: { word: gettext("disconnected"), tone: "quiet", icon: "circle" },
};
