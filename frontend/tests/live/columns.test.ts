import { expect, test } from "vitest";
import { type Columns, drawn, moments, withSecond } from "../../src/live/columns.ts";
import { completed, computedPart } from "../../src/live/stored-history.ts";

function columns(): Columns {
  return { t0: 100, step_s: 5, series: { in: [1, 2, 3], backlog: [7, 8, 9], other: [1, 1, 1] } };
}

test("a second within the last step is added to its counts, and replaces its gauges", () => {
  const { t0, series } = withSecond(columns(), 114, { in: 4 }, { backlog: 10 });
  expect([t0, series.in, series.backlog]).toEqual([100, [1, 2, 7], [7, 8, 10]]);
});

test("a later second begins a step, and the first one leaves", () => {
  const { t0, series } = withSecond(columns(), 115, { in: 4 }, { backlog: 10 });
  expect([t0, series]).toEqual([105, { in: [2, 3, 4], backlog: [8, 9, 10], other: [1, 1, null] }]);
});

test("steps that are skipped are gaps, and all of them when the pause was long", () => {
  expect(withSecond(columns(), 122, { in: 4 }, {}).series.in).toEqual([3, null, 4]);
  expect(withSecond(columns(), 10_000, { in: 4 }, {}).series.in).toEqual([null, null, 4]);
});

test("a second before the first step changes nothing, and the columns themselves never change", () => {
  const before = columns();
  expect(withSecond(before, 99, { in: 4 }, {})).toBe(before);
  withSecond(before, 114, { in: 4 }, {});
  expect(before).toEqual(columns());
});

test("what moved in a step that is not over is not drawn, and what is as of now is", () => {
  expect(drawn(columns(), 113).series).toEqual({ in: [1, 2, null], backlog: [7, 8, 9], other: [1, 1, 1] });
  expect(drawn(columns(), 114).series.in).toEqual([1, 2, 3]);
  expect(drawn(columns(), 0).series.in).toEqual([null, null, null]);
});

test("each step begins where the one before ends", () => {
  expect(moments(columns())).toEqual([100, 105, 110]);
  expect(moments({ t0: 1, step_s: 1, series: {} })).toEqual([]);
});

test("gaps of what a node has in memory are filled with what is stored, where the steps are the same", () => {
  const memory: Columns = { t0: 110, step_s: 5, series: { in: [null, 2, null], backlog: [null, 1, 1] } };
  const stored = { t0: 100, step_s: 5, series: { in: [9, 8, 7, 6, 5] }, stored_from: null, stored_to: null };
  expect(completed(memory, stored).series).toMatchObject({ in: [7, 2, 5], backlog: [null, 1, 1] });
  expect(completed(memory, { ...stored, step_s: 60 })).toBe(memory);
});

test("the part that was computed counts unknown steps as nothing", () => {
  expect(computedPart({ t0: 0, step_s: 1, series: { computed: [1, 0.5, null, 0.5] }, stored_from: null, stored_to: null })).toBe(0.5);
});
