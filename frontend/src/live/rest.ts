import { parseExact } from "../exact-json.ts";
import { parseProblem, type Problem } from "./problem.ts";

/** One destination in a snapshot. Rates are messages a second, `oldest_s` the age in seconds of the first that waits. */
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

export interface Node {
  name: string;
  version: string;
  connections: number;
  in_rate: number;
  out_rate: number;
  memory_bytes: number;
  journal_bytes: number;
}

/** The whole of `/topic/$mom.stats` at one moment; `time` is RFC 3339. */
export interface Snapshot {
  time: string;
  node: Node;
  destinations: Destination[];
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

export class Rest {
  constructor(private readonly base: string) {}

  snapshot(): Promise<Snapshot> {
    return this.#get("stats");
  }

  browse(queue: string, after: string | null, limit: number): Promise<Page<BrowsedMessage>> {
    const query = new URLSearchParams({ limit: String(limit) });
    if (after !== null) query.set("after", after);
    return this.#get(`queues/${encodeURIComponent(queue)}/messages?${query}`);
  }

  /** The address of a message's body, byte for byte. */
  bodyUrl(queue: string, id: string): string {
    return `${this.base}messages/${encodeURIComponent(id)}/body?${new URLSearchParams({ queue })}`;
  }

  async body(queue: string, id: string): Promise<Uint8Array> {
    const reply = await fetch(this.bodyUrl(queue, id));
    if (!reply.ok) throw new RequestRefused(parseProblem(await reply.text(), `HTTP ${reply.status} ${reply.statusText}`));
    return new Uint8Array(await reply.arrayBuffer());
  }

  /** Whether the session cookie is still good. Only a clear "no" counts: an unreachable server says nothing. */
  async isSignedIn(): Promise<boolean> {
    try {
      const reply = await fetch(`${this.base}stats`, { headers: { accept: "application/json" } });
      return reply.status !== 401 && reply.status !== 403;
    } catch {
      return true;
    }
  }

  async #get<Answer>(path: string): Promise<Answer> {
    const reply = await fetch(this.base + path, { headers: { accept: "application/json" } });
    const text = await reply.text();
    if (!reply.ok) throw new RequestRefused(parseProblem(text, `HTTP ${reply.status} ${reply.statusText}`));
    return parseExact(text) as Answer;
  }
}
