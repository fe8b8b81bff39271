import { expect, test } from "vitest";
import { eventOf, prettyJson } from "../../src/view/cloud-event.ts";
import { bareName, isQueue, partsOf } from "../../src/view/name.ts";
import { STEPS, outline } from "../../src/view/sparkline.ts";
import { stepsBy } from "../../src/view/connection-test.ts";
import { indented, looksLikeXml } from "../../src/view/xml.ts";

test("XML has a line for each element, and one for an element with nothing but text", () => {
  expect(indented("<a><b>text</b><c/><!-- d --><e><f></f></e></a>").split("\n")).toEqual([
    "<a>",
    "  <b>text</b>",
    "  <c/>",
    "  <!-- d -->",
    "  <e>",
    "    <f>",
    "    </f>",
    "  </e>",
    "</a>",
  ]);
});

test("XML begins with a tag, a declaration or a comment, and ends with one", () => {
  expect(["<?xml version='1.0'?><a/>", " <a b='c'>d</a> ", "<!-- x --><a/>", "<3", "a < b >", "<a> and more"].map(looksLikeXml)).toEqual([
    true,
    true,
    true,
    false,
    false,
    false,
  ]);
});

test("the attributes of a CloudEvent are in headers, or in its JSON", () => {
  expect(eventOf({ "ce-specversion": "1.0", "ce-type": "t", other: "x" }, undefined)).toEqual([
    ["specversion", "1.0"],
    ["type", "t"],
  ]);
  expect(eventOf({}, { specversion: "1.0", type: "t", priority: 5, data: { a: 1 } })).toEqual([
    ["specversion", "1.0"],
    ["type", "t"],
    ["priority", "5"],
  ]);
  expect([eventOf({ "ce-type": "t" }, {}), eventOf({}, [1]), eventOf({}, null)]).toEqual([undefined, undefined, undefined]);
});

test("JSON is written with a line for each member, text that is none not at all", () => {
  expect(prettyJson('{"a":1.50}')).toBe('{\n  "a": 1.50\n}');
  expect(prettyJson("a")).toBeUndefined();
});

test("a name of REST is without its kind, which may be temporary", () => {
  expect(["/queue/a/b", "/temp-queue/a", "/topic/a", "a"].map(bareName)).toEqual(["a/b", "a", "a", "a"]);
  expect(["/queue/a", "/temp-queue/a", "/topic/queue"].map(isQueue)).toEqual([true, true, false]);
});

test("a sparkline ends at the right edge, and is as high as its peak; nothing is drawn where nothing was", () => {
  expect(outline([])).toBe("");
  expect(outline([0, 10])).toBe("M77.2 19L80 1");
  expect(outline([3])).toBe("M77.2 1L80 1");
  expect(outline(Array(STEPS).fill(0))).toBe("");
  expect(outline(Array(STEPS).fill(1))).toMatch(/^M0 1L.*L80 1$/);
});

test("a connection test takes the steps of its protocol", () => {
  expect(stepsBy("stomp")).toEqual(["dns", "tcp", "login", "sync-queue", "target"]);
  expect(stepsBy("wss")).toEqual(["dns", "tcp", "tls", "websocket", "login", "sync-queue", "target"]);
});

test("a name has a last part behind its dots, slashes and colons", () => {
  expect(["orders.new.eu", "plain", "storeAndForward:west/queue/orders.far", "ends."].map(partsOf)).toEqual([
    ["orders.new.", "eu"],
    ["", "plain"],
    ["storeAndForward:west/queue/orders.", "far"],
    ["ends.", ""],
  ]);
});
