import { expect, test } from "vitest";
import type { Message } from "../../src/messages/requests.ts";
import { isOwn, shownHeaders } from "../../src/messages/table.ts";

test("messages of other brokers are not this broker's, and all are where there is no cluster", () => {
  const of = (broker?: string) => ({ broker }) as Message;
  expect([isOwn(of("b1"), "b1"), isOwn(of("b2"), "b1"), isOwn(of(), "")]).toEqual([true, false, true]);
});

test("headers of the application come before those of the broker, and those of dead letters are shown elsewhere", () => {
  const headers = { "dedup-id": "1", "dead-reason": "expired", tenant: "acme", "ttl-s": "5", region: "eu" };
  expect(shownHeaders(headers).map(([name]) => name)).toEqual(["tenant", "region", "dedup-id", "ttl-s"]);
});
