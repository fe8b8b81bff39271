import { expect, test } from "vitest";
import type { Connection, Consumer } from "../../src/view/connection.ts";
import { verdictOfConnection, verdictOfDestination, type Situation } from "../../src/view/verdict.ts";

const CALM: Situation = { state: "idle", paused: "none", consumers: 0 };
const OPEN = {
  client: "till-7",
  user: "shop",
  closed_at: null,
  reason: null,
  in_rate: 2,
  out_rate: 3,
  unsettled: 4,
  congested: false,
  throttled: false,
} as Connection;

test.each<[Partial<Situation>, string]>([
  [{}, "Nothing waits and nothing moves."],
  [{ consumers: 2 }, "Nothing waits; 2 consumers are ready."],
  [{ unsettled: 1, consumers: 1 }, "Busy: 1 message is with a consumer."],
  [{ depth: 3, unsettled: 100, consumers: 1 }, "Nothing moves: 3 messages wait while consumers hold 100."],
  [{ depth: 3, oldest_s: 60 }, "Nothing moves; 3 messages wait, the oldest for 1 min."],
  [{ state: "no-consumer", depth: 1, oldest_s: 2 }, "1 message waits, and there is no consumer; the oldest came 2.0 s ago."],
  [{ state: "growing", in_rate: 11, out_rate: 4 }, "Grows by 7.0/s: 11/s come in, 4.0/s go out."],
  [{ state: "growing", in_rate: 11, out_rate: 4, unsettled: 10 }, "Grows by 7.0/s: 11/s come in, 4.0/s go out, and its consumers hold 10."],
  [{ state: "flowing", in_rate: 5, out_rate: 5 }, "5.0/s come in, 5.0/s go out; nothing waits."],
  [{ state: "flowing", in_rate: 5, out_rate: 5, depth: 2, oldest_s: 1 }, "5.0/s come in, 5.0/s go out; 2 messages wait, the oldest for 1.0 s."],
  [{ state: "at-limit", depth: 90, unsettled: 10 }, "Its limit is reached with 100 messages: new ones are refused, or the oldest are dropped."],
  [{ paused: "all", depth: 2 }, "An operator has paused it; 2 messages wait."],
  [{ paused: "all" }, "An operator has paused it; nothing waits."],
])("a queue that is %o", (situation, sentence) => {
  expect(verdictOfDestination("queue", { ...CALM, ...situation })).toBe(sentence);
});

test.each<[Partial<Situation>, string]>([
  [{}, "Nothing is published, and there are no subscribers."],
  [{ consumers: 1 }, "Nothing is published; 1 subscriber waits."],
  [{ in_rate: 9, out_rate: 18, consumers: 2 }, "9.0/s come in; 2 subscribers receive 18/s in all."],
  [{ in_rate: 9 }, "9.0/s come in, and there are no subscribers."],
  [{ paused: "producers" }, "An operator has paused it."],
])("a topic that is %o", (situation, sentence) => {
  expect(verdictOfDestination("topic", { ...CALM, ...situation })).toBe(sentence);
});

test("a client: the first thing that holds it up, else what it does", () => {
  const full = { credit: 4, unsettled: 4, destination: "/queue/a" } as Consumer;
  expect(verdictOfConnection(OPEN, [])).toBe("till-7 sends 2.0 frames/s and subscribes to nothing.");
  expect(verdictOfConnection(OPEN, [{ ...full, unsettled: 3 }])).toBe("till-7 sends 2.0 and receives 3.0 frames/s; 4 messages are unsettled.");
  expect(verdictOfConnection(OPEN, [full])).toBe("till-7 holds 4 messages of /queue/a, all that its credit allows: it gets more as it settles them.");
  expect(verdictOfConnection({ ...OPEN, congested: true }, [full])).toBe("till-7 does not read what the broker has sent.");
  expect(verdictOfConnection({ ...OPEN, throttled: true }, [])).toBe("till-7 sends too fast: the broker holds back what it sends.");
  expect(verdictOfConnection({ ...OPEN, client: "", in_rate: 0, out_rate: 0 }, [])).toBe("shop is connected and quiet.");
  expect(verdictOfConnection({ ...OPEN, closed_at: "2026-01-01T00:00:00Z", reason: "left" }, [])).toBe("till-7 has disconnected: left");
});
