import { expect, test } from "vitest";
import { signOfJob, isOpen, left, placeOf, titleOf } from "../../src/jobs/labels.ts";

test("a job that is done says so, and whether messages were refused", () => {
  expect(signOfJob({ state: "done", refused: 0 })).toMatchObject({ word: "done", tone: "good" });
  expect(signOfJob({ state: "done", refused: 3 })).toMatchObject({ word: "done, some refused", tone: "warn" });
});

test("a job is open until it has ended", () => {
  expect((["waiting", "running", "done", "cancelled", "stopped", "failed"] as const).filter((state) => isOpen({ state }))).toEqual(["waiting", "running"]);
});

test("a job is named by what it does, in words for one and for many", () => {
  expect([titleOf("move", 1), titleOf("undo", 1200)]).toEqual(["Move 1 message", "Move 1,200 messages back"]);
});

test("the target of a job is a queue, or where each message came from", () => {
  expect([placeOf("/queue/a/b"), placeOf("origin"), placeOf(null)]).toEqual(["a/b", "their origin", ""]);
});

test("the remaining time follows from the rate until now, and is unknown at the beginning and the end", () => {
  const started = new Date(Date.now() - 60_000).toISOString();
  expect(left({ started, processed: 500, total: 1000 })).toMatch(/^(1 min|59 s)$/);
  expect([
    left({ started, processed: 0, total: 1000 }),
    left({ started, processed: 1000, total: 1000 }),
    left({ started: null, processed: 5, total: 10 }),
  ]).toEqual([undefined, undefined, undefined]);
});
