/** One queue or topic: its REST representation, and its statistics of each second. */

import { pathOf, topicOf, type Kind } from "../destinations/address.ts";
import type { DestinationState, Right } from "../generated/tables.ts";
import { session } from "../services.ts";
import { readVersion } from "./requests.ts";
import { RequestRefused, type Destination } from "./rest.ts";
import { Source } from "./source.ts";

/** A limit of each broker of a cluster, or of all together. */
export interface ScopedLimit {
  limit: number;
  scope: "broker" | "cluster";
  brokers: number;
  effective: number;
}

/** The REST representation of a queue or topic; topics have some of these members. */
export interface Facts {
  name: string;
  depth?: number;
  delayed?: number;
  unsettled?: number;
  consumers: number;
  named?: number;
  oldest_s?: number;
  published: number;
  paused: "none" | "producers" | "consumers" | "all";
  state: DestinationState;
  declared: boolean;
  /** How other brokers of the cluster know a queue; null in no cluster. */
  propagation?: "declared" | "consumers" | "local" | null;
  settings: Record<string, { value: unknown; source: string }>;
  permissions: Right[];
  /** By setting. */
  limits: Record<string, ScopedLimit>;
  usage?: Record<"messages" | "bytes" | "producers" | "consumers", number | null>;
}

/** Statistics, published once a second while they change. */
export interface Now extends Destination {
  /** Of the broker's clock, RFC 3339. */
  time: string;
  delayed: number;
  state: DestinationState;
  acked_rate: number;
}

const POLL_MS = 5_000;
/** Observe it with `Follow`; it is loaded and subscribed to while it has observers. */
export class LiveDestination extends Source {
  facts: Facts | undefined;
  now: Now | undefined;
  /** That of its settings, for If-Match. */
  version: string | null = null;
  /** Why it could not be read the last time: refused, or not answered. */
  fault: unknown;
  #watchers = 0;
  #heardAt = 0;
  #stop: (() => void) | undefined;

  constructor(
    readonly kind: Kind,
    readonly name: string,
  ) {
    super();
  }

  get address(): string {
    return `/${this.kind}/${this.name}`;
  }

  /** Where the API has it. */
  get path(): string {
    return pathOf(this.kind, this.name);
  }

  /** Whether the destination does not exist. */
  get isMissing(): boolean {
    return this.fault instanceof RequestRefused && this.fault.problem.status === 404;
  }

  /** System topics have no REST representation. */
  get isSystem(): boolean {
    return this.name.startsWith("$");
  }

  may(right: Right): boolean {
    if (this.isSystem) return right === "receive";
    return this.facts?.permissions.includes(right) ?? false;
  }

  override watch(listener: () => void): () => void {
    const unwatch = super.watch(listener);
    if (this.#watchers++ === 0) this.#start();
    return () => {
      unwatch();
      if (--this.#watchers === 0) this.#stop?.();
    };
  }

  /** Reload it, for example after an action. */
  async read(): Promise<void> {
    if (this.isSystem) return;
    try {
      const { body, version } = await readVersion<Facts>(this.path);
      this.facts = body;
      this.version = version;
      this.fault = undefined;
    } catch (fault) {
      this.fault = fault;
      if (this.isMissing) this.facts = this.now = undefined;
    }
    this.changed();
  }

  #start(): void {
    const unsubscribe = session.subscribe(topicOf("stats", this.name), (body) => this.#hear(JSON.parse(body) as Now));
    // Idle destinations publish no statistics, and some users may not subscribe: then it is polled. Creation is published.
    const timer = setInterval(() => {
      if (!document.hidden && !this.isMissing && performance.now() - this.#heardAt > POLL_MS) void this.read();
    }, POLL_MS);
    this.#stop = () => {
      unsubscribe();
      clearInterval(timer);
    };
    void this.read();
  }

  #hear(now: Now): void {
    // A queue and a topic of one name share the address.
    if (now.name !== this.address) return;
    this.#heardAt = performance.now();
    this.now = now;
    if (this.facts === undefined) void this.read();
    else {
      const { depth, delayed, unsettled, oldest_s, state } = now;
      // For topics, offline subscribers are counted, too.
      const consumers = this.kind === "queue" ? now.consumers : this.facts.consumers;
      this.facts = { ...this.facts, depth, delayed, unsettled, consumers, oldest_s, state };
    }
    this.changed();
  }
}

const known = new Map<string, LiveDestination>();

/** The one of this kind and name; islands of a page share it. */
export function liveDestination(kind: Kind, name: string): LiveDestination {
  const key = `${kind}/${name}`;
  const one = known.get(key) ?? new LiveDestination(kind, name);
  // A page is about one destination: those of former pages are not kept.
  if (!known.has(key)) known.clear();
  known.set(key, one);
  return one;
}
