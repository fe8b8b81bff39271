import { expect, test } from "vitest";
import { Session } from "../../src/live/session.ts";

function session(): Session {
  return new Session("ws://127.0.0.1:1/ws", async () => true, 1_000);
}

test("the consoles of brokers are where their WebSockets are", () => {
  const one = session();
  one.learn(["stomp://a:61613", " ws://a:8000/ws", "wss://b/mom/ws"]);
  expect(one.brokers).toEqual(["http://a:8000", "https://b/mom"]);
  one.learn(["stomp://c:61613"]);
  expect(one.brokers).toEqual(["http://a:8000", "https://b/mom"]);
});

test("what is published without a connection is not sent, and says so", async () => {
  const outcome = await session().publish({ destination: "/queue/a", body: "", headers: {} });
  expect(outcome).toEqual({ kind: "unconfirmed", why: "Not sent: there is no connection to the broker." });
});
