import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { UpdateTimer } from "../../src/live/update-timer.ts";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

test("events that follow each other closely do not postpone an update", () => {
  let updates = 0;
  const timer = new UpdateTimer(() => (updates += 1), 10_000);
  for (let at = 0; at < 2_000; at += 100) {
    timer.soon(250);
    vi.advanceTimersByTime(100);
  }
  expect(updates).toBeGreaterThanOrEqual(6);
});

test("an event during an update causes another one", () => {
  let updates = 0;
  const timer = new UpdateTimer(() => (updates += 1), 10_000);
  timer.soon(250);
  vi.advanceTimersByTime(250);
  timer.soon(250);
  timer.later();
  vi.advanceTimersByTime(250);
  expect(updates).toBe(2);
});

test("without events an update follows after the usual time, and none once it is stopped", () => {
  let updates = 0;
  const timer = new UpdateTimer(() => (updates += 1), 10_000);
  timer.later();
  vi.advanceTimersByTime(10_000);
  timer.later();
  timer.stop();
  vi.advanceTimersByTime(10_000);
  expect(updates).toBe(1);
});
