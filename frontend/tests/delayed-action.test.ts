import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { runDelayed } from "../src/delayed-action.ts";

beforeEach(() => {
  vi.useFakeTimers();
  document.body.innerHTML = '<div id="toasts"></div>';
});
afterEach(() => void vi.useRealTimers());

function held(isSingle: boolean): { done: number } {
  const counter = { done: 0 };
  runDelayed("Deleted in ten seconds.", { isSingle }, async () => {
    counter.done += 1;
  });
  return counter;
}

test("a delayed action is run once, after ten seconds", () => {
  const counter = held(true);
  vi.advanceTimersByTime(9_900);
  expect(counter.done).toBe(0);
  vi.advanceTimersByTime(60_000);
  expect(counter.done).toBe(1);
});

test("a delayed request is sent at once when the page is left", () => {
  const counter = held(true);
  dispatchEvent(new Event("pagehide"));
  expect(counter.done).toBe(1);
  vi.advanceTimersByTime(60_000);
  expect(counter.done).toBe(1);
});

test("an action of many requests is not begun when the page is left: it could not be completed", () => {
  const counter = held(false);
  dispatchEvent(new Event("pagehide"));
  expect(counter.done).toBe(0);
});

test("a delayed action that is undone is not run, not even when the page is left", () => {
  const counter = held(true);
  document.querySelector<HTMLElement>("#toasts button")!.click();
  dispatchEvent(new Event("pagehide"));
  vi.advanceTimersByTime(60_000);
  expect(counter.done).toBe(0);
});
