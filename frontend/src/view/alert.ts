/** Alerts of the REST API, as sentences and signs. */

import type { AlertCondition, AlertState, ComponentKind, FlowState, Health, Severity } from "../generated/tables.ts";
import { ALERT_SENTENCES, type AlertSentences } from "../generated/alerts.ts";
import { filled, gettext, ngettext } from "../gettext.ts";
import { count, duration } from "./format.ts";
import { bareName } from "./name.ts";
import { signIn, type Sign } from "./sign.ts";
import { ALERT_STATE } from "../generated/signs/alert-state.ts";
import { FLOW_STATE } from "../generated/signs/flow-state.ts";
import { HEALTH } from "../generated/signs/health.ts";
import { SEVERITY } from "../generated/signs/severity.ts";

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
  return state === "firing" ? signIn(SEVERITY, severity) : signIn(ALERT_STATE, state);
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
    health: signIn(HEALTH, String(facts.health) as Health).word,
    state: stateOf(facts),
    taker: String(facts.taker ?? ""),
  });
  const reason = facts.reason || facts.detail;
  return reason ? `${sentence}: ${String(reason)}` : sentence;
}

function stateOf({ state, error }: Record<string, unknown>): string {
  const { word } = signIn(FLOW_STATE, String(state ?? "stalled") as FlowState);
  return error ? `${word} (${String(error)})` : word;
}
