/** Example code of one tool for a destination. */

import { gettext } from "../gettext.ts";

/** The purpose of example code. */
export type Purpose = "produce" | "consume" | "callback";

/** Code for one purpose. */
export interface Step {
  purpose: Purpose;
  code: string;
}

/** One tool, and what it can do with the destination. */
export interface Example {
  key: string;
  tool: string;
  steps: Step[];
  /** Requirements or limitations. */
  note?: string;
}

export interface Server {
  /** Origin of this page, such as http://127.0.0.1:8000. */
  origin: string;
  host: string;
  stompPort: string;
  user: string;
}

/** A destination, and the addresses at which tools reach it; without a token, code takes it from the environment. */
export interface ExampleTarget {
  kind: string;
  name: string;
  destination: string;
  server: Server;
  /** Below /api/v1/. */
  api: string;
  /** Where it is published to. */
  messages: string;
  receive: string;
  socket: string;
  token: string;
}

export function step(purpose: Purpose, code: string): Step {
  return { purpose, code };
}

/** Only for queues. */
export function ofQueue(kind: string, ...steps: Step[]): Step[] {
  return kind === "queue" ? steps : [];
}

export function topicNote(kind: string): { note?: string } {
  if (kind === "queue") return {};
  return { note: gettext("Topics are subscribed to over STOMP, on TCP or WebSocket.") };
}
