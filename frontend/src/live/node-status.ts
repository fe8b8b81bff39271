import { read } from "./requests.ts";
import type { Session } from "./session.ts";
import { Source } from "./source.ts";

const POLL_MS = 5_000;
const STALE_S = 5;
const OLD_S = 30;

/** The node as `$mom.node` tells of it once a second. */
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
  /** why it takes no messages now, or null */
  refuses: string | null;
}

export type Freshness = "none" | "fresh" | "stale" | "old";

/** What the node said last, and how long ago: by it every figure on the page is as old as it looks. */
export class NodeStatus extends Source {
  node: Node | undefined;
  /** RFC 3339, of what was told last */
  time: string | undefined;
  /** Whether the topic is not for who looks, so that the figures are read every 5 s instead. */
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

  /** Seconds since the node was heard last, or undefined before the first time. */
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
      // The pill says by itself how old the last figures are.
    }
    setTimeout(() => void this.#poll(), POLL_MS);
  }
}
