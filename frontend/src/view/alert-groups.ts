/** Alerts that have a cause in common: one condition, and one family of destinations or kind of component. */

import { gettext, ngettext } from "../gettext.ts";
import { HEALTH } from "../generated/signs/health.ts";
import { KINDS, type Alert } from "./alert.ts";
import type { ComponentKind, Health } from "../generated/tables.ts";

export interface AlertGroup {
  key: string;
  /** The newest first. */
  alerts: Alert[];
}

/** Alerts in groups: those with the worst come first, then those with the newest. */
export function groupsOf(alerts: Alert[]): AlertGroup[] {
  const byKey = new Map<string, Alert[]>();
  for (const alert of [...alerts].sort((a, b) => b.since.localeCompare(a.since))) {
    const key = JSON.stringify([alert.rule, alert.severity, alert.state, alert.facts.health, familyOf(alert)]);
    byKey.set(key, [...(byKey.get(key) ?? []), alert]);
  }
  const groups = [...byKey].map(([key, members]) => ({ key, alerts: members }));
  const rank = ({ alerts: [first] }: AlertGroup) => (first!.severity === "critical" ? 0 : 1);
  return groups.sort((a, b) => rank(a) - rank(b) || b.alerts[0]!.since.localeCompare(a.alerts[0]!.since));
}

/** What names of a group begin with, `/queue/orders.`; of a component, its kind; otherwise the whole name. */
function familyOf({ subject, condition }: Alert): string {
  if (condition === "bridge-stalled") return "";
  return /^\/[^/]+\/[^.]*\./.exec(subject)?.[0] ?? /^[a-z]+\//.exec(subject)?.[0] ?? subject;
}

/** The sentence of a group of several. */
export function sentenceOfGroup({ alerts }: AlertGroup): string {
  const [first] = alerts;
  const number = alerts.length;
  const family = `${familyOf(first!).replace(/^\/[^/]+\//, "")}*`;
  switch (first!.condition) {
    case "oldest":
      return ngettext("{family}: in {count} queue messages wait for long", "{family}: in {count} queues messages wait for long", number, { family });
    case "dead-letters":
      return ngettext("{family}: {count} queue of dead letters grew", "{family}: {count} queues of dead letters grew", number, { family });
    case "no-consumer":
      return ngettext("{family}: {count} queue without consumers", "{family}: {count} queues without consumers", number, { family });
    case "bridge-stalled":
      return ngettext("{count} bridge does not forward", "{count} bridges do not forward", number);
    case "failing":
    case "degraded": {
      const kind = first!.subject.split("/")[0] as ComponentKind;
      const health = HEALTH[String(first!.facts.health) as Health]?.word ?? first!.condition;
      return gettext("{kind}: {count} {health}", { kind: KINDS[kind] ?? kind, count: number, health });
    }
    default:
      return gettext("{rule}: {count} alerts", { rule: first!.rule, count: number });
  }
}
