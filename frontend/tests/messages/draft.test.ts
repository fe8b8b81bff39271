import { expect, test } from "vitest";
import { draftOf, ownHeaders } from "../../src/messages/draft.ts";
import type { Message } from "../../src/messages/requests.ts";

const MESSAGE: Message = {
  id: "01J",
  position: 1,
  time: "2026-03-01T12:00:00Z",
  size: 2,
  priority: 7,
  persistent: false,
  attempt: 1,
  redelivered: false,
  state: "ready",
  content_type: null,
  headers: {},
  truncated: false,
  type: "order",
  correlation_id: null,
  reply_to: "/queue/replies",
};

test("a message like another has its properties and no body", () => {
  expect(draftOf(MESSAGE)).toEqual({ body: "", contentType: "", persistent: false, priority: 7, type: "order", reply_to: "/queue/replies" });
});

test("headers of the protocol, and those that a dead letter got, are not the application's own", () => {
  const headers = { tenant: "acme", Origin: "/queue/a", "dead-reason": "expired", "sent-at": "1", "content-type": "text/plain", deadline: "5", "": "x" };
  expect(ownHeaders(headers)).toEqual({ tenant: "acme", deadline: "5" });
});
