import { expect, test } from "vitest";
import { type Alert, sentenceOf, signOf } from "../../src/view/alert.ts";

function alert(change: Partial<Alert>): Alert {
  return {
    id: "1",
    rule: "r",
    condition: "oldest",
    severity: "warning",
    subject: "/queue/orders",
    state: "firing",
    detail: "in English",
    value: 0,
    threshold: 0,
    facts: {},
    since: "",
    fired_at: "",
    ended_at: null,
    by: "",
    reason: "",
    until: null,
    page: "",
    ...change,
  };
}

test("each condition has a sentence of its own", () => {
  const sentences = [
    alert({ condition: "oldest", value: 7200 }),
    alert({ condition: "dead-letters", value: 1200 }),
    alert({ condition: "no-consumer", value: 1 }),
    alert({ condition: "bridge-stalled", subject: "dc", value: 2, facts: { state: "retrying", error: "dns" } }),
    alert({ condition: "store", value: 81 }),
    alert({ condition: "flapping", subject: "jane@10.0.0.1", value: 12 }),
    alert({ condition: "configuration", facts: { detail: "line 3" } }),
    alert({ condition: "failing", subject: "callback/orders/new", facts: { kind: "callback", health: "stalled", detail: "HTTP 500" } }),
    alert({ condition: "degraded", subject: "mirror/m1", facts: { kind: "mirror", health: "degraded", detail: "" } }),
    alert({ condition: "link-down", subject: "b2", facts: { reason: "no route to host" } }),
    alert({ condition: "link-refused", subject: "b3", facts: { reason: "autocreate.queue differs" } }),
    alert({ condition: "keeper-away", subject: "b1:7676", facts: {} }),
    alert({ condition: "takeover", subject: "b1", facts: { taker: "b2", result: "complete", reason: "no heart-beat" } }),
    alert({ condition: "takeover", subject: "b1", facts: { taker: "b3", result: "failed", reason: "it is damaged" } }),
    alert({ condition: "suspect", subject: "b1", facts: { reason: "no heart-beat" } }),
    alert({ condition: "discovery", subject: "registry shop", facts: { reason: "no route to host" } }),
  ].map(sentenceOf);
  expect(sentences).toEqual([
    "orders: the oldest message has waited 2 h",
    "orders grew by 1,200 in 10 min",
    "orders: 1 message waits, no consumers",
    "Bridge dc is retrying (dns): 2 messages wait",
    "Store usage: 81 %",
    "jane@10.0.0.1 connected 12 times in 5 min",
    "Configuration files were rejected: line 3",
    "Callback orders/new is stalled: HTTP 500",
    "Mirror m1 is degraded",
    "Broker b2 of the cluster cannot be reached: no route to host",
    "Broker b3 is not in one cluster with this one: autocreate.queue differs",
    "Changes of the configuration are refused",
    "b2 has taken over from b1: no heart-beat",
    "b3 could not take over from b1: it is damaged",
    "Member b1 of the cluster is suspect: no heart-beat",
    "Brokers cannot be found by registry shop: no route to host",
  ]);
});

test("a condition that the page does not know is in the words of the broker", () => {
  expect(sentenceOf(alert({ condition: "of a later version" as Alert["condition"] }))).toBe("in English");
});

test("the sign of an alert follows from its state, and from its severity while it fires", () => {
  const signs = [
    alert({}),
    alert({ severity: "critical" }),
    alert({ state: "acknowledged", severity: "critical" }),
    alert({ state: "silenced" }),
    alert({ state: "ended", severity: "critical" }),
  ].map((each) => signOf(each).tone);
  expect(signs).toEqual(["warn", "bad", "quiet", "quiet", "good"]);
});
