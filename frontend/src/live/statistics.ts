import type { Destination, Node, Snapshot } from "./rest.ts";
import { Source } from "./source.ts";

/** Seconds a trend reaches back, and seconds one of its points stands for. */
export const TREND_S = 300;
export const TREND_STEP_S = 5;
/** The broker's own topics, this page's numbers among them, are no work of its users. */
const SYSTEM = "/topic/$mom.";
const GROWING_AFTER_S = 120;

/** What the page remembers of a destination between snapshots. */
class History {
  /** Depth by time step, oldest first; the last one is still changing. */
  readonly depths: { step: number; depth: number }[] = [];
  #growingSince: number | undefined;

  record(destination: Destination, timeS: number): void {
    const step = Math.floor(timeS / TREND_STEP_S);
    const last = this.depths.at(-1);
    if (last?.step === step) last.depth = destination.depth;
    else this.depths.push({ step, depth: destination.depth });
    while (this.depths.length > 0 && this.depths[0]!.step <= step - TREND_S / TREND_STEP_S) this.depths.shift();
    if (destination.in_rate <= destination.out_rate) this.#growingSince = undefined;
    else this.#growingSince ??= timeS;
  }

  isGrowing(timeS: number): boolean {
    return this.#growingSince !== undefined && timeS - this.#growingSince >= GROWING_AFTER_S;
  }
}

export type Freshness = "none" | "fresh" | "stale" | "old";

/** The newest snapshot, and five minutes of depth for each destination in it. */
export class Statistics extends Source {
  node: Node | undefined;
  destinations: ReadonlyMap<string, Destination> = new Map();
  #histories = new Map<string, History>();
  #timeS = 0;
  #receivedAt: number | undefined;

  /** Takes a snapshot unless a newer one is here: the REST answer may be overtaken by the live ones. */
  apply(snapshot: Snapshot): void {
    const timeS = Date.parse(snapshot.time) / 1000;
    if (timeS < this.#timeS) return;
    this.#timeS = timeS;
    this.#receivedAt = performance.now();
    this.node = snapshot.node;
    const destinations = snapshot.destinations.filter(({ name }) => !name.startsWith(SYSTEM));
    this.destinations = new Map(destinations.map((destination) => [destination.name, destination]));
    const histories = new Map<string, History>();
    for (const destination of destinations) {
      const history = this.#histories.get(destination.name) ?? new History();
      history.record(destination, timeS);
      histories.set(destination.name, history);
    }
    this.#histories = histories;
    this.changed();
  }

  /** A restarted broker may have a clock that is behind: what comes next is newest whatever it says. */
  expectAny(): void {
    this.#timeS = 0;
  }

  /** Seconds since the newest snapshot came, or undefined before the first. */
  get ageS(): number | undefined {
    return this.#receivedAt === undefined ? undefined : (performance.now() - this.#receivedAt) / 1000;
  }

  get freshness(): Freshness {
    const age = this.ageS;
    if (age === undefined) return "none";
    return age > 30 ? "old" : age > 5 ? "stale" : "fresh";
  }

  trend(name: string): readonly { step: number; depth: number }[] {
    return this.#histories.get(name)?.depths ?? [];
  }

  isGrowing(name: string): boolean {
    return this.#histories.get(name)?.isGrowing(this.#timeS) ?? false;
  }
}
