import { expect, test } from "vitest";
import { change, hasNewcomers, type Item, labelOf } from "../../src/destinations/tree.ts";

function items(): Item[] {
  return [
    { name: "orders", depth: 1, state: "idle" },
    { prefix: "eu.", count: 20, depth: 5, state: "idle" },
    { prefix: "us.", count: 20, depth: 5, state: "idle" },
  ];
}

test("a leaf below a fold is shown by the rest of its name", () => {
  expect([labelOf("eu.orders", "eu."), labelOf("eu.", "eu."), labelOf("orders", "")]).toEqual(["orders", "eu.", "orders"]);
});

test("leaves that are shown change at once, and the names of others are returned", () => {
  const shown = items();
  expect(
    change(
      shown,
      new Map([
        ["orders", { depth: 9, state: "growing" as const }],
        ["eu.a", { depth: 2 }],
      ]),
    ),
  ).toEqual(["eu.a"]);
  expect(shown).toEqual([{ name: "orders", depth: 9, state: "growing" }, ...items().slice(1)]);
});

test("a name is new unless it is below a fold that is collapsed", () => {
  const isOpen = (prefix: string) => prefix === "us.";
  expect(["eu.a", "us.a", "other"].map((name) => hasNewcomers([name], items(), isOpen))).toEqual([false, true, true]);
  expect(hasNewcomers([], items(), isOpen)).toBe(false);
});
