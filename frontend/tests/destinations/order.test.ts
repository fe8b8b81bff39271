import { expect, test } from "vitest";
import { directionOf, isInOrder, nextSort } from "../../src/destinations/order.ts";
import type { DestinationStats } from "../../src/destinations/stats.ts";

test("the list is sorted by name, unless the address has another order", () => {
  expect([directionOf("name", ""), directionOf("depth", ""), directionOf("depth", "depth"), directionOf("depth", "-depth")]).toEqual([
    "ascending",
    undefined,
    "ascending",
    "descending",
  ]);
});

test("a click on a heading sorts numbers in descending order first, and turns the order around each time", () => {
  expect([nextSort("depth", true, ""), nextSort("depth", true, "-depth"), nextSort("depth", true, "depth")]).toEqual(["-depth", "depth", "-depth"]);
  expect([nextSort("state", false, ""), nextSort("state", false, "state"), nextSort("state", false, "-state")]).toEqual(["state", "-state", "state"]);
  expect(nextSort("name", false, "")).toBe("-name");
});

test("rows are in order when no value exceeds that of the row before; missing values are the least", () => {
  const rows = (...values: (number | null)[]) => values.map((oldest_s, at) => ({ name: `q${9 - at}`, oldest_s }) as unknown as DestinationStats);
  expect(isInOrder(rows(3, 3, 0, null), "-oldest_s")).toBe(true);
  expect(isInOrder(rows(3, null, 0), "-oldest_s")).toBe(false);
  expect(isInOrder(rows(null, 0, 3), "oldest_s")).toBe(true);
  expect(isInOrder(rows(3, 1), "")).toBe(true);
  expect(isInOrder([], "-depth")).toBe(true);
});
