import { nothing } from "lit";
import { afterEach, expect, test, vi } from "vitest";
import { obstacle } from "../../src/messages/bulk-bar.ts";
import { hintOf, refusal } from "../../src/view/refusal.ts";

const SENTENCE = "You have the role monitor, which sees everything and changes nothing.";

function pageOf(dataset: Record<string, string>): void {
  vi.stubGlobal("document", { body: { dataset } });
}

afterEach(() => vi.unstubAllGlobals());

test("the page of a monitor has the reason, which comes before all other hints", () => {
  pageOf({ refusal: SENTENCE });
  expect(refusal()).toBe(SENTENCE);
  expect(hintOf("it has a consumer; close it first")).toBe(SENTENCE);
});

test("pages of others have none", () => {
  pageOf({});
  expect(refusal()).toBeUndefined();
  expect(hintOf()).toBe(nothing);
  expect(hintOf("Close connection…")).toBe("Close connection…");
});

test("a monitor copies and exports nothing, whatever its rights are", () => {
  pageOf({ refusal: SENTENCE });
  const parts = { queue: "orders", chosen: 1, condition: {}, rights: ["browse", "read"] };
  expect(obstacle("copy", parts)).toBe(SENTENCE);
});
