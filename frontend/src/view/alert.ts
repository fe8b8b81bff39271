/** Alerts of the REST API, as sentences and signs. */

import type { AlertCondition, AlertState, ComponentKind, Health, Severity } from "../generated/tables.ts";
import { gettext, ngettext } from "../gettext.ts";
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
  const name = bareName(subject);
  const waiting = ngettext("{count} message waits", "{count} messages wait", value);
  switch (condition) {
    case "oldest":
      return gettext("{name}: the oldest message has waited {span}", { name, span: duration(value) });
    case "dead-letters":
      return gettext("{name} grew by {count} in 10 min", { name, count: count(value) });
    case "no-consumer":
      return gettext("{name}: {waiting}, no consumers", { name, waiting });
    case "bridge-stalled": {
      const error = facts.error ? ` (${String(facts.error)})` : "";
      const state = { failed: gettext("failed"), retrying: gettext("retrying") }[String(facts.state)] ?? gettext("stalled");
      return gettext("Bridge {name} is {state}: {waiting}", { name, state: state + error, waiting });
    }
    case "store":
      return gettext("Store usage: {percent} %", { percent: value });
    case "flapping":
      return gettext("{name} connected {count} times in 5 min", { name: subject, count: count(value) });
    case "configuration":
      return gettext("Configuration files were rejected: {detail}", { detail: String(facts.detail ?? "") });
    case "failing":
    case "degraded":
      return componentSentence(subject, facts);
    case "link-down":
      return withReason(gettext("Broker {name} of the cluster cannot be reached", { name: subject }), facts);
    case "link-refused":
      return withReason(gettext("Broker {name} is not in one cluster with this one", { name: subject }), facts);
    case "keeper-away":
      return withReason(gettext("Changes of the configuration are refused"), facts);
    case "takeover":
      return withReason(takeoverSentence(subject, facts), facts);
    case "suspect":
      return withReason(gettext("Member {name} of the cluster is suspect", { name: subject }), facts);
    case "discovery":
      return withReason(gettext("Brokers cannot be found by {name}", { name: subject }), facts);
    default:
      return detail;
  }
}

function takeoverSentence(name: string, facts: Record<string, unknown>): string {
  const taker = String(facts.taker ?? "");
  return facts.result === "failed"
    ? gettext("{taker} could not take over from {name}", { taker, name })
    : gettext("{taker} has taken over from {name}", { taker, name });
}

function withReason(sentence: string, { reason }: Record<string, unknown>): string {
  return reason ? `${sentence}: ${String(reason)}` : sentence;
}

/** A component by its kind and name, `callback/orders`, its health, and the reason. */
function componentSentence(subject: string, facts: Record<string, unknown>): string {
  const [, kind = "", name = ""] = /^([^/]*)\/(.*)$/s.exec(subject) ?? [];
  const health = HEALTH[String(facts.health) as Health] ?? String(facts.health);
  const sentence = gettext("{kind} {name} is {health}", { kind: KINDS[kind as ComponentKind] ?? kind, name, health });
  return facts.detail ? `${sentence}: ${String(facts.detail)}` : sentence;
}
