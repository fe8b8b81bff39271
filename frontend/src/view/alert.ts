/** Alerts of the REST API, as sentences and signs. */

import type { AlertCondition, AlertState, ComponentKind, Health, Severity } from "../generated/tables.ts";
import { ALERT_SENTENCES, type AlertSentences } from "../generated/alerts.ts";
import { filled, gettext, ngettext } from "../gettext.ts";
import { count, duration } from "./format.ts";
import { bareName } from "./name.ts";
import type { Sign } from "./sign.ts";

export interface Alert {
  id: string;
  rule: string;
  condition: AlertCondition;
  severity: Severity;
  subject: string;
  state: AlertState;
  detail: string;
  value: number;
  threshold: number;
  facts: Record<string, unknown>;
  since: string;
  fired_at: string;
  ended_at: string | null;
  by: string;
  reason: string;
  until: string | null;
  /** The address of the page, below the console. */
  page: string;
}

/** The sign of an alert's state. */
export function signOf({ state, severity }: Alert): Sign {
  if (state === "ended") return { tone: "good", icon: "circle-check", word: gettext("ended") };
  if (state === "silenced") return { tone: "quiet", icon: "bell-off", word: gettext("silenced") };
  if (state === "acknowledged") return { tone: "quiet", icon: "user", word: gettext("acknowledged") };
  return severity === "critical"
    ? { tone: "bad", icon: "octagon-alert", word: gettext("critical") }
    : { tone: "warn", icon: "triangle-alert", word: gettext("warning") };
}

export const KINDS: Record<ComponentKind, string> = {
  callback: gettext("Callback"),
  reflex: gettext("Reflex"),
  bridge: gettext("Bridge"),
  mirror: gettext("Mirror"),
  link: gettext("Link"),
  pipeline: gettext("Pipeline"),
  store: gettext("Store"),
};
export const HEALTH: Record<Health, string> = {
  running: gettext("running"),
  degraded: gettext("degraded"),
  stalled: gettext("stalled"),
  failing: gettext("failing"),
  paused: gettext("paused"),
  off: gettext("off"),
};

/** The sentence of an alert in the language of the page; the broker's English text for unknown conditions. */
export function sentenceOf({ condition, subject, value, facts, detail }: Alert): string {
  const texts = ALERT_SENTENCES[condition] as AlertSentences | undefined;
  if (texts === undefined) return detail;
  const [, kind = "", component = ""] = /^([^/]*)\/(.*)$/s.exec(subject) ?? [];
  const sentence = filled(facts.result === "failed" ? (texts.failed ?? texts.found) : texts.found, {
    name: "kind" in facts ? component : bareName(subject),
    kind: KINDS[kind as ComponentKind] ?? kind,
    count: count(value),
    percent: value,
    span: duration(value),
    waiting: ngettext("{count} message waits", "{count} messages wait", value),
    health: HEALTH[String(facts.health) as Health] ?? String(facts.health),
    state: stateOf(facts),
    taker: String(facts.taker ?? ""),
  });
  const reason = facts.reason || facts.detail;
  return reason ? `${sentence}: ${String(reason)}` : sentence;
}

function stateOf({ state, error }: Record<string, unknown>): string {
  const word = { failed: gettext("failed"), retrying: gettext("retrying") }[String(state)] ?? gettext("stalled");
  return error ? `${word} (${String(error)})` : word;
}
