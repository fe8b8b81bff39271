import { expect, test } from "vitest";
import type { Columns } from "../../src/live/columns.ts";
import { Plot } from "../../src/view/plot.ts";
import { inUnit, type Unit } from "../../src/view/unit.ts";

const columns = (values: (number | null)[], step_s = 60, t0 = 1_800_000_000): Columns => ({ t0, step_s, series: { a: values } });

function plot(values: (number | null)[], unit: Unit = "count", step_s = 60): Plot {
  return new Plot(400, 182, columns(values, step_s), [values], unit);
}

test("the value axis has few round ticks from 0 to above the highest value", () => {
  const ticks = (values: (number | null)[], unit?: Unit) => plot(values, unit).ticksY.map(({ value }) => value);
  expect(ticks([0, 37])).toEqual([0, 10, 20, 30, 40]);
  expect(ticks([0, 3])).toEqual([0, 1, 2, 3]);
  expect(ticks([null, 0])).toEqual([0, 1]);
  expect(ticks([0.2, 0.3], "rate")).toEqual([0, 0.2, 0.4, 0.6000000000000001]);
  expect(ticks([0, 90], "seconds")).toEqual([0, 30, 60, 90]);
  expect(ticks([0, 5_000_000], "bytes").at(-1)).toBe(6 * 1024 ** 2);
});

test("the time axis has round times, those of days by the clocks of the zone", () => {
  const times = (step_s: number, offset_s = 0) => plot(Array(61).fill(1), "count", step_s).ticksX(offset_s);
  expect(times(15).map(({ value }) => value % 300)).toEqual([0, 0, 0, 0]);
  expect(times(3600).every(({ value }) => value % 86_400 === 0)).toBe(true);
  expect(times(3600, 3600).every(({ value }) => (value + 3600) % 86_400 === 0)).toBe(true);
  const apart = times(15).map(({ at }) => at);
  expect(Math.min(...apart.slice(1).map((at, index) => at - apart[index]!))).toBeGreaterThanOrEqual(76);
});

test("a line ends at a gap, and a value between two gaps is a dot", () => {
  const { line, area, dots } = plot([0, 2, null, 2, null, 0, 0]).draw([0, 2, null, 2, null, 0, 0], false);
  expect(line).toBe("M58 160L113.7 8M336.3 160L392 160");
  expect(area).toBe("M58 160L58 160L113.7 8V160ZM336.3 160L336.3 160L392 160V160Z");
  expect(dots).toEqual([[225, 8]]);
});

test("what changes at once is drawn in steps", () => {
  expect(plot([0, 2, 2]).draw([0, 2, 2], true).line).toBe("M58 160H225V8H392V8");
});

test("the nearest step of a pixel is one that there is", () => {
  const three = plot([1, 2, 3]);
  expect([-50, 58, 150, 230, 392, 999].map((x) => three.nearest(x))).toEqual([0, 0, 1, 1, 2, 2]);
  expect(new Plot(400, 182, { t0: 0, step_s: 1, series: {} }, [], "count").nearest(100)).toBeNull();
});

test("each tick of an axis of times has a label of its own", () => {
  const labels = plot([0, 90], "seconds").ticksY.map(({ value }) => inUnit(value, "seconds"));
  expect(labels).toEqual(["0 s", "30 s", "1 min", "90 s"]);
});
