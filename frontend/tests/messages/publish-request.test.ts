import { expect, test } from "vitest";
import { complaintOf } from "../../src/messages/publish-request.ts";

test("JSON is checked as it is sent: with what is filled in for each message", () => {
  const valid = ['{"n": {{n}}, "id": "{{uuid}}", "at": "{{now}}"}', "[]", ""];
  expect(valid.map((body) => complaintOf(body, "application/json"))).toEqual(["", "", ""]);
  expect(complaintOf('{"id": {{uuid}}}', "application/cloudevents+json")).toMatch(/^This is not valid JSON: /);
  expect(complaintOf("{", "application/json")).toMatch(/^This is not valid JSON: /);
  expect(complaintOf("{", "text/plain")).toBe("");
});
