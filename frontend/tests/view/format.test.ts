import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { ago, bytes, count, duration, fullTime, perHour, rate, time } from "../../src/view/format.ts";

beforeEach(() => void vi.useFakeTimers({ now: new Date("2026-03-01T12:00:00Z") }));
afterEach(() => void vi.useRealTimers());

test("a count has separators and no decimals", () => {
  expect([0, 999.6, 1_234_567].map(count)).toEqual(["0", "1,000", "1,234,567"]);
});

test("a rate has a decimal below ten, and none when it is zero", () => {
  expect([0, 0.04, 9.96, 10, 1234.5].map(rate)).toEqual(["0", "0.0", "10.0", "10", "1,235"]);
});

test("few messages an hour keep two digits", () => {
  expect([0.0123, 9.87, 12.3].map(perHour)).toEqual(["0.012", "9.9", "12"]);
});

test("a size has the unit in which it is below 1024, and a decimal below ten of them", () => {
  expect([0, 1023, 1024, 1536, 10_240, 5 * 1024 ** 3, 3000 * 1024 ** 4].map(bytes)).toEqual([
    "0 B",
    "1,023 B",
    "1.0 KiB",
    "1.5 KiB",
    "10 KiB",
    "5.0 GiB",
    "3,000 TiB",
  ]);
});

test("a duration has at most two units", () => {
  expect([0, 9.94, 59.9, 60, 3599, 3600, 7860, 86_400, 190_800].map(duration)).toEqual([
    "0.0 s",
    "9.9 s",
    "59 s",
    "1 min",
    "59 min",
    "1 h",
    "2 h 11 min",
    "1 d",
    "2 d 5 h",
  ]);
});

test("a moment of a clock that is ahead is now", () => {
  expect(["2026-03-01T12:00:05Z", "2026-03-01T11:59:59.5Z", "2026-03-01T11:58:00Z"].map(ago)).toEqual(["now", "now", "2 min ago"]);
});

test("a time is written in the zone of the page", () => {
  expect(time("2026-03-01T23:04:05Z")).toBe("23:04:05");
  expect(fullTime("2026-03-01T23:04:05Z")).toBe("Mar 1, 2026, 23:04:05 UTC");
});
