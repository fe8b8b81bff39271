import { expect, test } from "vitest";
import type { Example, Purpose } from "../../src/view/example.ts";
import { examples, publishSnippets } from "../../src/view/snippets.ts";

const SERVER = { origin: "https://mom.example/below", host: "mom.example", stompPort: "61614", user: "jane" };

function codeOf(known: Example[], key: string, purpose: Purpose): string | undefined {
  return known.find((each) => each.key === key)?.steps.find((step) => step.purpose === purpose)?.code;
}

test("a queue has examples of all tools, a topic none that only queues have", () => {
  const purposes = (destination: string) =>
    Object.fromEntries(examples(destination, SERVER).map(({ key, steps }) => [key, steps.map(({ purpose }) => purpose)]));
  expect(purposes("/queue/orders")).toEqual({
    curl: ["produce", "consume"],
    httpie: ["produce", "consume"],
    mom: ["produce", "consume", "callback"],
    mom_client: ["produce", "consume"],
    "stomp.py": ["produce", "callback"],
    stompjs: ["produce", "callback"],
    java: ["produce", "consume"],
    sse: ["callback"],
  });
  expect(purposes("/topic/prices")).toMatchObject({ curl: ["produce"], httpie: ["produce"], java: ["produce"] });
  expect(purposes("/topic/prices")).not.toHaveProperty("sse");
});

test("nothing is published to a topic of the broker itself", () => {
  expect(examples("/topic/$mom.node", SERVER).flatMap(({ steps }) => steps.map(({ purpose }) => purpose))).not.toContain("produce");
});

test("a token stands in the code, else the variable of the environment", () => {
  for (const { key, steps } of examples("/queue/a", SERVER)) {
    // Our own clients read the variable themselves.
    if (!key.startsWith("mom")) for (const { code } of steps) expect(code, key).toContain("MOM_TOKEN");
  }
  for (const { key, steps } of examples("/queue/a", SERVER, "s3cret")) {
    for (const { code } of steps) expect(code, key).toContain("s3cret");
  }
});

test("a name is quoted for the shell and encoded for an address", () => {
  const known = examples("/queue/it's $HOME/ä", SERVER);
  expect(codeOf(known, "mom", "produce")).toContain("mom pub 'it'\\''s $HOME/ä' 'Hello'");
  expect(codeOf(known, "curl", "produce")).toContain("queues/it's%20%24HOME%2F%C3%A4/messages".replaceAll("'", "'\\''"));
  expect(codeOf(known, "mom_client", "produce")).toContain('mom.send("/queue/it\'s $HOME/ä", "Hello")');
});

test("clients of STOMP connect to its port, or to the WebSocket where there is none", () => {
  const connect = (stompPort: string) => codeOf(examples("/queue/a", { ...SERVER, stompPort }), "mom_client", "produce");
  expect(connect("61614")).toContain('connect("stomp://mom.example:61614")');
  expect(connect("")).toContain('connect("wss://mom.example/below/ws")');
});

test("a page that is empty shows three ways to publish", () => {
  expect(publishSnippets("/queue/a", SERVER).map(({ tool }) => tool)).toEqual(["curl", "mom", "Python · mom_client"]);
});
