import { expect, test } from "vitest";
import { SearchError, isEmpty, parse, queryOf, toggled } from "../../src/messages/search.ts";

test("each term is a condition, and other words are looked for as text", () => {
  expect(parse('paid header.tenant="acme ltd" age>1h reason:"schema v3" origin:orders is:delayed invoice')).toEqual({
    q: "paid invoice",
    headers: { tenant: "acme ltd" },
    age_gt_s: 3600,
    reason: "schema v3",
    origin: "orders",
    state: "delayed",
  });
  expect(parse("id:01J id:02K").ids).toEqual(["01J", "02K"]);
  expect(parse("type:order correlation-id:7 colour=red").headers).toEqual({ type: "order", "correlation-id": "7", colour: "red" });
  expect(isEmpty(parse("   "))).toBe(true);
});

test("a word with a colon that is no condition is text, such as an address of the web", () => {
  expect(parse("https://mom.example/x 12:30")).toEqual({ q: "https://mom.example/x 12:30" });
});

test("quotes keep blanks and quoted quotes together", () => {
  expect(parse(String.raw`"a \"b\" c" reason:"d \\ e"`)).toEqual({ q: 'a "b" c', reason: String.raw`d \ e` });
});

test("operators with blanks around them make a selector of it all, but not within quotes", () => {
  for (const text of ["colour = 'red' AND size > 3", "name LIKE 'a%'", "colour IS NULL"]) expect(parse(text)).toEqual({ selector: text });
  expect(parse('reason:"a = b"')).toEqual({ reason: "a = b" });
});

test("an age has a unit, seconds if it has none", () => {
  const seconds = ["age<90", "age<90s", "age<5m", "age<5min", "age<1.5h", "age<2d"].map((text) => parse(text).age_lt_s);
  expect(seconds).toEqual([90, 90, 300, 300, 5400, 172_800]);
});

test("a condition that is wrong or occurs twice is refused with the reason", () => {
  expect(() => parse("age:1h")).toThrow(new SearchError("An age needs < or >, such as age>1h or age<30min."));
  expect(() => parse("age>soon")).toThrow("soon is not an age. Write 90s, 5min, 2h or 3d.");
  expect(() => parse("is:lost")).toThrow("lost is not a message state. Use ready, unsettled or delayed.");
  expect(() => parse("reason:a reason:b")).toThrow("reason occurs twice.");
});

test("a condition becomes parameters of an address; with ids it is one line", () => {
  expect([...queryOf(parse("paid header.a=1 age>5 is:ready"))]).toEqual([
    ["age_gt_s", "5"],
    ["q", "paid"],
    ["header.a", "1"],
    ["state", "ready"],
  ]);
  expect(queryOf({ ids: ["01J"], reason: 'a "b"', headers: { t: "x" } }).get("where")).toBe('id:"01J" header.t:"x" reason:"a \\"b\\""');
});

test("a reason is added to the search, replaces another one, and is taken out again", () => {
  expect(toggled("paid", "reason", "no room")).toBe('paid reason:"no room"');
  expect(toggled('paid reason:"no room" is:ready', "reason", "expired")).toBe('paid is:ready reason:"expired"');
  expect(toggled('paid reason:"no room" is:ready', "reason", "no room")).toBe("paid is:ready");
});
