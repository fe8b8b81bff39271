import { expect, test } from "vitest";
import { Selection } from "../../src/destinations/selection.ts";

const SHOWN = ["a", "b", "c"];

test("a row is selected and deselected", () => {
  const selection = new Selection();
  selection.toggle("a", SHOWN);
  selection.toggle("b", SHOWN);
  selection.toggle("a", SHOWN);
  expect([selection.names, selection.count(9), selection.covers(SHOWN)]).toEqual([["b"], 1, false]);
});

test("all that match are selected on all pages, until a row is deselected", () => {
  const selection = new Selection();
  selection.choose([], true);
  expect([selection.count(500), selection.has("elsewhere"), selection.covers(SHOWN)]).toEqual([500, true, true]);
  selection.toggle("b", SHOWN);
  expect([selection.names, selection.all]).toEqual([["a", "c"], false]);
});

test("rows that are no longer shown are deselected", () => {
  const selection = new Selection();
  selection.choose(SHOWN);
  expect(selection.covers(SHOWN)).toBe(true);
  selection.keep((name) => name !== "b");
  expect(selection.names).toEqual(["a", "c"]);
});

test("nothing of an empty list is selected", () => {
  expect(new Selection().covers([])).toBe(false);
});
