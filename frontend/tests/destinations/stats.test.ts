import { expect, test } from "vitest";
import { changesOf } from "../../src/destinations/stats.ts";

test("a row of changed figures is read by its columns", () => {
  expect([...changesOf([["/queue/a", 3, 1, 2, 0.5, 4, 12.5, "growing", 0.25, null]])]).toEqual([
    ["/queue/a", { depth: 3, unsettled: 1, consumers: 2, in_rate: 0.5, out_rate: 4, oldest_s: 12.5, state: "growing", fill: 0.25, full_in_s: null }],
  ]);
});
