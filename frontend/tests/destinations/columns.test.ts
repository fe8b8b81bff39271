import { expect, test } from "vitest";
import { chosenColumns, columnsOf, membersOf } from "../../src/destinations/columns.ts";
import type { DestinationStats } from "../../src/destinations/stats.ts";

const keys = (text: string) => chosenColumns("queue", text).map(({ key }) => key);

test("the columns of the address are shown in the order of the list, else the usual ones", () => {
  expect(keys("limit,state,unknown")).toEqual(["state", "limit"]);
  expect(keys("")).toEqual(
    columnsOf("queue")
      .filter(({ visibleByDefault }) => visibleByDefault)
      .map(({ key }) => key),
  );
});

test("a card on a phone has three values besides the name", () => {
  for (const kind of ["queue", "topic"] as const) expect(columnsOf(kind).filter(({ onMobile }) => onMobile)).toHaveLength(3);
});

test("what actions need is requested with the columns, each once", () => {
  expect(membersOf(chosenColumns("queue", "depth,limit"))).toEqual(["name", "state", "paused", "depth", "unsettled", "consumers", "fill", "full_in_s"]);
});

test("the age of the oldest message grows with that of the figures, and there is none in an empty queue", () => {
  const oldest = columnsOf("queue").find(({ key }) => key === "oldest")!;
  const text = (depth: number) => oldest.text({ depth, oldest_s: 50 } as DestinationStats, 12);
  expect([text(3), text(0)]).toEqual(["1 min", "–"]);
});
