import { beforeEach, expect, test } from "vitest";
import { PageAddress } from "../src/page-address.ts";

beforeEach(() => history.replaceState({ scroll: 7 }, "", "/console/queues/?filter=a&after=x"));

test("a change of the address keeps the rest of the query, and takes out what is empty", () => {
  const address = new PageAddress();
  expect(address.href({ after: null, sort: "-depth", filter: "ä b" })).toBe("/console/queues/?filter=%C3%A4+b&sort=-depth");
  expect(address.href({ after: "", filter: null })).toBe("/console/queues/");
  expect([address.get("filter"), address.get("unknown")]).toEqual(["a", ""]);
});

test("a change is an entry of the history, unless it replaces the present one", () => {
  const address = new PageAddress();
  const entries = history.length;
  address.go({ filter: "ab" }, { replace: true });
  expect([history.length, location.search, history.state]).toEqual([entries, "?filter=ab&after=x", { scroll: 7, htmx: true }]);
  address.go({ after: null });
  expect([history.length, location.search, history.state]).toEqual([entries + 1, "?filter=ab", { htmx: true }]);
});

test("those that watch the address are notified until they leave", () => {
  const address = new PageAddress();
  const heard: string[] = [];
  const leave = address.watch(() => heard.push(location.search));
  address.go({ filter: "b" });
  address.read();
  leave();
  address.go({ filter: "c" });
  expect(heard).toEqual(["?filter=b&after=x", "?filter=b&after=x"]);
  expect(address.isFollowed).toBe(false);
});
