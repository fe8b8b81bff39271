import { expect, test } from "vitest";
import { difference } from "../../src/view/difference.ts";

function marked(before: string, after: string): string[] {
  const marks = { same: " ", gone: "-", new: "+" };
  return difference(before, after).map(({ mark, text }) => marks[mark] + text);
}

test("common lines keep their order, others are gone or new", () => {
  expect(marked("a\nb\nc\nd", "a\nc\nx\nd")).toEqual([" a", "-b", " c", "+x", " d"]);
  expect(marked("a", "a")).toEqual([" a"]);
  expect(marked("", "a\nb")).toEqual(["-", "+a", "+b"]);
});

test("a repeated line is found once", () => {
  expect(marked("a\na", "a")).toEqual([" a", "-a"]);
});

test("texts that differ too much are shown one behind the other", () => {
  const lines = (word: string) => Array.from({ length: 2_100 }, (_, at) => `${word}${at}`).join("\n");
  const found = difference(lines("a"), lines("b"));
  expect([found.length, found[0]!.mark, found.at(-1)!.mark]).toEqual([4_200, "gone", "new"]);
});
