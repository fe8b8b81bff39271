import { expect, test } from "vitest";
import { RequestRefused, Unreachable } from "../../src/live/rest.ts";
import type { Message, MessagePage } from "../../src/messages/requests.ts";
import { SearchError } from "../../src/messages/search.ts";
import { SearchResults } from "../../src/messages/search-results.ts";

function page(ids: string[], change: Partial<MessagePage> = {}): MessagePage {
  return { items: ids.map((id) => ({ id }) as Message), next: null, approx_total: 1000, scanned: 100, stopped: false, not_shown: [], ...change };
}

function searched(condition: SearchResults["condition"], ...pages: MessagePage[]): SearchResults {
  const results = new SearchResults();
  results.begin();
  results.condition = condition;
  for (const [at, each] of pages.entries()) results.take(each, at > 0);
  return results;
}

test("a page that continues another one is added to it, and replaces it otherwise", () => {
  const results = searched({ q: "x" }, page(["a"], { stopped: true, next: "1" }), page(["b"]));
  expect([results.items.map(({ id }) => id), results.scanned, results.stopped]).toEqual([["a", "b"], 200, false]);
  results.take(page(["c"]), false);
  expect([results.items.map(({ id }) => id), results.scanned]).toEqual([["c"], 100]);
});

test("a page is not added to one of another journal", () => {
  const results = searched({ q: "x" }, page(["a"], { stopped: true, next: "1" }), page(["b"], { unknown_position: true, stopped: true, next: "2" }));
  expect([results.items.map(({ id }) => id), results.scanned, results.unknownPosition]).toEqual([["b"], 100, true]);
  results.take(page(["c"]), true);
  expect([results.items.map(({ id }) => id), results.unknownPosition]).toEqual([["b", "c"], true]);
  results.take(page(["d"]), false);
  expect(results.unknownPosition).toBe(false);
});

test("the summary says how many match as exactly as it is known", () => {
  expect(searched({}, page(["a", "b"])).summary).toBe("2 shown of 1,000 messages in the queue");
  expect(searched({ q: "x" }, page(["a"], { next: "1" })).summary).toBe("at least 1 of 1,000 messages in the queue match");
  expect(searched({ q: "x" }, page(["a"])).summary).toBe("1 shown of 1,000 messages in the queue");
  const counted = searched({ q: "x" }, page(["a"], { next: "1" }));
  counted.digest = { matches: 7, oldest: null, newest: null, by_origin: {}, by_reason: {}, scanned: 1000, stopped: false };
  expect(counted.summary).toBe("7 of 1,000 messages in the queue match");
  const cluster = searched({ q: "x" }, page(["a"], { next: "1", broker: "b1", not_shown: ["b2"] }));
  cluster.digest = counted.digest; // of b1 alone
  expect([cluster.summary, cluster.notShown]).toEqual(["at least 1 of 1,000 messages in the queue match", ["b2"]]);
  counted.begin();
  expect(counted.summary).toBe("Searching…");
});

test("nothing is summed up before the first page", () => {
  expect(searched({}).summary).toBe("");
});

test("a search that is invalid has ended, with the reason and without messages", () => {
  const results = searched({});
  results.fail(new SearchError("reason occurs twice."));
  expect([results.searchError, results.state, results.summary]).toEqual(["reason occurs twice.", "shown", ""]);
  const refused = searched({ q: "x" }, page(["a"]));
  refused.fail(new RequestRefused({ title: "invalid", detail: "no such header", status: 400 }));
  expect([refused.searchError, refused.items]).toEqual(["no such header", []]);
});

test("a queue that does not exist has no messages; one that was not reached keeps those that are shown", () => {
  const missing = searched({}, page(["a"]));
  missing.fail(new RequestRefused({ title: "not found", detail: "", status: 404 }));
  expect([missing.state, missing.items]).toEqual(["missing", []]);
  const failed = searched({}, page(["a"]));
  failed.fail(new Unreachable());
  expect([failed.state, failed.items.length, failed.error]).toEqual(["failed", 1, "The broker cannot be reached."]);
});

test("messages that are shown are compared with the queue: it has changed, or has none any more", () => {
  const results = searched({}, page(["a"]));
  expect([results.compare(2), results.since]).toEqual([true, "changed"]);
  expect([results.compare(0), results.since]).toEqual([true, "emptied"]);
  expect([results.compare(0), results.since]).toEqual([false, "emptied"]);
  results.begin();
  expect([results.compare(1), results.since]).toEqual([false, ""]);
  const filtered = searched({ q: "x" }, page([]));
  expect([filtered.compare(1), filtered.since]).toEqual([true, "changed"]);
  const cluster = searched({}, page(["a"], { broker: "b1" }));
  expect([cluster.compare(0), cluster.since]).toEqual([true, "changed"]);
});

test("an empty queue that is shown as such is never out of date", () => {
  const results = searched({}, page([], { approx_total: 0 }));
  expect([results.compare(3), results.compare(0), results.since]).toEqual([false, false, ""]);
});
