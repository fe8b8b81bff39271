import { expect, test } from "vitest";
import { shell } from "../../src/view/quoting.ts";

test("a word of the shell is bare when harmless, else in single quotes", () => {
  expect(["orders.new", "a b", "it's", "", "$(rm)"].map(shell)).toEqual(["orders.new", "'a b'", "'it'\\''s'", "''", "'$(rm)'"]);
});
