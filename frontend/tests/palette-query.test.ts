import { expect, test } from "vitest";
import { hasWords, isMessageId, parted, queryOf } from "../src/palette-query.ts";

const VERBS = [{ word: "Pause" }, { word: "Publish" }];

test("a text that begins with a command and names something is a command", () => {
  expect(queryOf("pause dc west", VERBS)).toEqual({ verb: VERBS[0], kind: undefined, name: "dc west" });
  expect(queryOf(" PUB orders ", VERBS)).toEqual({ verb: VERBS[1], kind: undefined, name: "orders" });
});

test("a command alone, or any other text, is searched for", () => {
  expect(queryOf("pause", VERBS)).toEqual({ verb: undefined, kind: undefined, name: "pause" });
  expect(queryOf("orders new", VERBS)).toEqual({ verb: undefined, kind: undefined, name: "orders new" });
});

test("a kind after the command is a kind only when a name follows", () => {
  expect(queryOf("pause bridge dc", VERBS)).toEqual({ verb: VERBS[0], kind: "bridge", name: "dc" });
  expect(queryOf("pause bridge", VERBS)).toEqual({ verb: VERBS[0], kind: undefined, name: "bridge" });
});

test("an id of a message is a whole UUID", () => {
  const id = "019ab3f2-77d1-7abc-8def-0123456789ab";
  expect([id, id.toUpperCase(), id.slice(1), `${id}0`, "orders"].map(isMessageId)).toEqual([true, true, false, false, false]);
});

test("a page is found by any part of each word", () => {
  expect(["que ex", "QUEUES", "queue lost"].map((text) => hasWords("Queues explained", text))).toEqual([true, true, false]);
});

test("the words that were typed are parts of a label, as the label has them", () => {
  expect(parted("payments.Sepa.batch", "sepa BATCH")).toEqual(["payments.", "Sepa", ".", "batch", ""]);
  expect(parted("a.b (1)", "b (")).toEqual(["a.", "b", " ", "(", "1)"]);
  expect(parted("orders", " ")).toEqual(["orders"]);
});
