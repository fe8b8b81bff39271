import { expect, test } from "vitest";
import type { Alert } from "../../src/view/alert.ts";
import { groupsOf, sentenceOfGroup } from "../../src/view/alert-groups.ts";

function alert(subject: string, change: Partial<Alert> = {}): Alert {
  const rule = change.condition ?? "no-consumer";
  const since = "2026-11-28T10:00:00Z";
  return { id: subject, rule, condition: rule, severity: "warning", subject, state: "firing", facts: {}, since, ...change } as Alert;
}

const subjects = (alerts: Alert[]) => groupsOf(alerts).map((group) => group.alerts.map(({ subject }) => subject));

test("alerts of one rule and one family of destinations are one group, the newest first", () => {
  const old = alert("/queue/orders.new", { since: "2026-11-28T09:00:00Z" });
  expect(subjects([old, alert("/queue/orders.paid"), alert("/queue/mail.out")])).toEqual([["/queue/orders.paid", "/queue/orders.new"], ["/queue/mail.out"]]);
});

test("other rules, severities and states are other groups", () => {
  const alerts = [
    alert("/queue/orders.a"),
    alert("/queue/orders.b", { rule: "mine" }),
    alert("/queue/orders.c", { state: "acknowledged" }),
    alert("/queue/orders.d", { severity: "critical" }),
  ];
  expect(groupsOf(alerts)).toHaveLength(4);
});

test("what is critical comes before what is newer", () => {
  const critical = alert("callback/hook", { condition: "failing", severity: "critical", since: "2026-11-28T08:00:00Z" });
  expect(subjects([alert("/queue/orders"), critical])[0]).toEqual(["callback/hook"]);
});

test("destinations without a family stand alone, components are together by kind and health", () => {
  const failing = { condition: "failing", facts: { health: "failing" } } as const;
  const stalled = { condition: "failing", facts: { health: "stalled" } } as const;
  const found = groupsOf([alert("/queue/a"), alert("/queue/b"), alert("callback/x", failing), alert("callback/y", failing), alert("callback/z", stalled)]);
  expect(found.map(({ alerts }) => alerts.length).sort()).toEqual([1, 1, 1, 2]);
  expect(sentenceOfGroup(found.find(({ alerts }) => alerts.length === 2)!)).toBe("Callback: 2 failing");
});

test("the sentence of a group names its family and how many it has", () => {
  const [group] = groupsOf([alert("/queue/orders.new"), alert("/queue/orders.paid")]);
  expect(sentenceOfGroup(group!)).toBe("orders.*: 2 queues without consumers");
});
