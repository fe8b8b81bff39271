import { read } from "./requests.ts";
import type { Session } from "./session.ts";
import { Source } from "./source.ts";

const POLL_MS = 5_000;
const STALE_S = 5;
const OLD_S = 30;

/** The status of the node, published on `$mom.node` once a second. */
export interface Node {
  name: string;
  version: string;
  in_rate: number;
  out_rate: number;
  backlog: number;
  unsettled: number;
  oldest_s: number;
  dead: number;
  connections: number;
  memory_bytes: number;
  journal_bytes: number;
  jobs?: number;
  alerts?: number;
  /** Why it takes no messages, or null. */
  resource_alarm: string | null;
}

export type Freshness = "none" | "fresh" | "stale" | "old";

/** The last status of the node, and its age. */
export class NodeStatus extends Source {
  node: Node | undefined;
  /** The time of the last status, RFC 3339. */
  time: string | undefined;
  /** Whether the status is polled every 5 s, because the user may not subscribe to the topic. */
  polled = false;
  #receivedAt: number | undefined;

  hear(session: Session): void {
    session.subscribe("/topic/$mom.node", (body) => this.#apply(JSON.parse(body) as { time: string; node: Node }), {
      headers: { snapshot: "true" },
      refused: () => {
        if (!this.polled) void this.#poll();
        this.polled = true;
      },
    });
  }

  /** Seconds since the last status, or undefined before the first one. */
  get ageS(): number | undefined {
    return this.#receivedAt === undefined ? undefined : (performance.now() - this.#receivedAt) / 1000;
  }

  get freshness(): Freshness {
    const age = this.ageS;
    if (age === undefined) return "none";
    return age > OLD_S ? "old" : age > (this.polled ? 2 * STALE_S : STALE_S) ? "stale" : "fresh";
  }

  #apply({ time, node }: { time: string; node: Node }): void {
    this.#receivedAt = performance.now();
    this.time = time;
    this.node = node;
    this.changed();
  }

  async #poll(): Promise<void> {
    try {
      if (!document.hidden) this.#apply(await read<{ time: string; node: Node }>("stats"));
    } catch {
      // The pill shows the age of the last status.
    }
    setTimeout(() => void this.#poll(), POLL_MS);
  }
}
