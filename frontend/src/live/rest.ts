import { gettext } from "../gettext.ts";
import type { Problem } from "./problem.ts";

/** Responses and problems of the REST API. */

/** One destination and its figures. Rates are messages a second, `oldest_s` the age in seconds of the first that waits. */
export interface Destination {
  name: string;
  kind: "queue" | "temp-queue" | "topic";
  depth: number;
  unsettled: number;
  consumers: number;
  in_rate: number;
  out_rate: number;
  oldest_s: number;
}

/** A message as browsing shows it. `body` is JSON or text by content type; anything else is `body_base64`. */
export interface BrowsedMessage {
  id: string;
  position: number;
  time: string;
  size: number;
  priority: number;
  persistent: boolean;
  attempt: number;
  redelivered: boolean;
  state: "ready" | "unsettled";
  content_type: string | null;
  headers: Record<string, string>;
  body?: unknown;
  body_base64?: string;
  truncated: boolean;
}

export interface Page<Item> {
  items: Item[];
  next: string | null;
}

/** The server answered, but not with what was asked for. */
export class RequestRefused extends Error {
  constructor(readonly problem: Problem) {
    super(problem.detail || problem.title);
  }
}

/** No server answered. */
export class Unreachable extends Error {
  constructor() {
    super(gettext("The broker cannot be reached."));
  }
}

/** Whether the error is temporary: no response, or that of a proxy. */
export function isPassing(fault: unknown): boolean {
  return fault instanceof Unreachable || (fault instanceof RequestRefused && [502, 503, 504].includes(fault.problem.status ?? 0));
}
