/** Example code for a destination, for several tools. */

import { mom, momClient, stompJs, stompPy } from "./client-examples.ts";
import { curl, httpie, java, sse } from "./http-examples.ts";
import type { Example, Server } from "./example.ts";

export interface Snippet {
  tool: string;
  code: string;
}

/** All examples for a destination. Without a token the code takes it from the environment's MOM_TOKEN. */
export function examples(destination: string, server: Server, token = ""): Example[] {
  const [, kind = "queue", ...rest] = destination.split("/");
  const name = rest.join("/");
  const api = `${server.origin}/api/v1`;
  const path = `${api}/${kind}s/${encodeURIComponent(name)}`;
  const socket = `${server.origin.replace(/^http/, "ws")}/ws`;
  const target = { kind, name, destination, server, api, messages: `${path}/messages`, receive: `${path}/receive`, socket, token };
  const known = [curl(target), httpie(target), mom(target), momClient(target), stompPy(target), stompJs(target), java(target), ...sse(target)];
  if (!name.startsWith("$")) return known;
  // Only the broker publishes to system topics.
  return known.map((example) => ({ ...example, steps: example.steps.filter(({ purpose }) => purpose !== "produce") }));
}

/** Three ways to publish, for pages that are empty. */
export function publishSnippets(destination: string, server: Server): Snippet[] {
  const chosen = examples(destination, server).filter(({ key }) => ["curl", "mom", "mom_client"].includes(key));
  return chosen.map(({ tool, steps }) => ({ tool, code: steps[0]!.code }));
}
