/** Written by `python -m tests.docs.generated`. */

import { gettext } from "../gettext.ts";
import type { AlertCondition } from "./tables.ts";

/** What was found, and what if it failed, with words in braces. */
export interface AlertSentences {
  found: string;
  failed?: string;
}

/** The sentences of alerts in the language of the page. */
export const ALERT_SENTENCES: Record<AlertCondition, AlertSentences> = {
  "oldest": { found: gettext("{name}: the oldest message has waited {span}") },
  "dead-letters": { found: gettext("{name} grew by {count} in 10 min") },
  "no-consumer": { found: gettext("{name}: {waiting}, no consumers") },
  "bridge-stalled": { found: gettext("Bridge {name} is {state}: {waiting}") },
  "store": { found: gettext("Store usage: {percent} %") },
  "flapping": { found: gettext("{name} connected {count} times in 5 min") },
  "configuration": { found: gettext("Configuration files were rejected") },
  "failing": { found: gettext("{kind} {name} is {health}") },
  "degraded": { found: gettext("{kind} {name} is {health}") },
  "link-down": { found: gettext("Broker {name} of the cluster cannot be reached") },
  "link-refused": { found: gettext("Broker {name} is not in one cluster with this one") },
  "keeper-away": { found: gettext("Changes of the configuration are refused") },
  "takeover": { found: gettext("{taker} has taken over from {name}"), failed: gettext("{taker} could not take over from {name}") },
  "suspect": { found: gettext("Member {name} of the cluster is suspect") },
  "discovery": { found: gettext("Brokers cannot be found by {name}") },
};
