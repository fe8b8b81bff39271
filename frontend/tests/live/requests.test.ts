import { expect, test } from "vitest";
import { parseProblem } from "../../src/live/problem.ts";
import { address } from "../../src/live/requests.ts";
import { isPassing, RequestRefused, Unreachable } from "../../src/live/rest.ts";

test("parameters without a value are left out of an address", () => {
  expect(address("queues", { q: "", state: undefined, sort: null, limit: 0, consumed: false, name: "a&b" })).toBe("queues?limit=0&consumed=false&name=a%26b");
  expect(address("queues")).toBe("queues");
});

test("a problem of the broker is read, and one of a proxy is its text", () => {
  expect(parseProblem('{"title": "full", "status": 507, "trace_id": "x"}', "HTTP 507")).toEqual({ title: "full", detail: "", status: 507, trace_id: "x" });
  expect(parseProblem("<h1>Bad Gateway</h1>", "HTTP 502")).toEqual({ title: "HTTP 502", detail: "<h1>Bad Gateway</h1>" });
  expect(parseProblem("{}", "HTTP 500")).toEqual({ title: "HTTP 500", detail: "{}" });
});

test("no answer, and that of a proxy without a broker, are passing; a refusal is not", () => {
  const refused = (status: number) => new RequestRefused({ title: "", detail: "", status });
  expect([new Unreachable(), refused(502), refused(503), refused(404), new Error("x")].map(isPassing)).toEqual([true, true, true, false, false]);
});
