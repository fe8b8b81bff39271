import { expect, test } from "vitest";
import type { Columns } from "../../src/live/columns.ts";
import { alone, type ChartLine, hasAny, marksWithin, summaryOf, valuesOf } from "../../src/view/chart.ts";
import { clock, tick } from "../../src/view/chart-time.ts";
import { inUnit } from "../../src/view/unit.ts";

const IN: ChartLine = { key: "in", label: "in", tone: "accent" };
const T0 = Date.parse("2026-03-01T12:00:00Z") / 1000;

function columns(values: (number | null)[], step_s = 5, t0 = T0): Columns {
  return { t0, step_s, series: { in: values } };
}

test("messages of a step are shown as a rate, gaps stay gaps", () => {
  expect(valuesOf(IN, columns([10, null, 0]), "rate")).toEqual([2, null, 0]);
  expect(valuesOf(IN, columns([10], 3600), "hourly")).toEqual([10]);
  expect(valuesOf(IN, columns([10]), "count")).toEqual([10]);
  expect(valuesOf({ ...IN, key: "unknown" }, columns([10]), "count")).toEqual([]);
});

test("a value has its unit, and a dash where nothing is known", () => {
  expect([inUnit(null, "rate"), inUnit(2.5, "rate"), inUnit(0.0004, "seconds"), inUnit(0.25, "seconds"), inUnit(0, "seconds"), inUnit(75, "seconds")]).toEqual([
    "–",
    "2.5/s",
    "1 ms",
    "250 ms",
    "0 s",
    "1 min",
  ]);
});

test("a chart is summed up in a sentence for each line", () => {
  const lines = [IN, { ...IN, key: "out", label: "out" }];
  expect(summaryOf(lines, columns([5, null, 20, 10]), "rate")).toBe("in: 2.0/s at the end, 1.0/s to 4.0/s. out: no data.");
  expect([hasAny(lines, columns([null, 0])), hasAny(lines, columns([null]))]).toEqual([true, false]);
});

test("marks outside of the chart are left out", () => {
  const marks = [-1, 0, 10, 11].map((second) => ({ time_s: T0 + second, label: "" }));
  expect(marksWithin(marks, columns([1, 2])).map(({ time_s }) => time_s - T0)).toEqual([0, 10]);
});

test("a value between two gaps is alone", () => {
  expect(alone([1, null, 2, null, 3, 4, undefined, 0])).toEqual([0, 2, 7]);
});

test("times have seconds in a short chart, none in a long one, and days in one of several days", () => {
  const [short, long, days] = [columns([1, 2]), columns(Array(200).fill(1), 300), columns(Array(200).fill(1), 3600)] as const;
  expect([clock(T0, short), clock(T0, days)]).toEqual(["12:00:00", "Mar 1, 12:00"]);
  expect([tick(T0 + 5, short), tick(T0, short), tick(T0 + 5, long)]).toEqual(["12:00:05", "12:00", "12:00"]);
  expect([tick(T0 + 43_200, long), tick(T0 + 43_200, days), tick(T0, days)]).toEqual(["00:00", "Mar 2", "12:00"]);
});
