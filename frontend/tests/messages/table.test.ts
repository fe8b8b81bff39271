import { expect, test } from "vitest";
import { shownHeaders } from "../../src/messages/table.ts";

test("headers of the application come before those of the broker, and those of dead letters are shown elsewhere", () => {
  const headers = { "dedup-id": "1", "dead-reason": "expired", tenant: "acme", "ttl-s": "5", region: "eu" };
  expect(shownHeaders(headers).map(([name]) => name)).toEqual(["tenant", "region", "dedup-id", "ttl-s"]);
});
