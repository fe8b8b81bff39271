/** Statistics of the destinations of a list, and subscriptions to their changes. */

import { session } from "../services.ts";

export type State = "at-limit" | "no-consumer" | "growing" | "paused" | "flowing" | "idle";

/** One destination. Rates are messages per second; `fill` is the used share of its limit, from 0 to 1. */
export interface DestinationStats {
  name: string;
  depth: number;
  unsettled: number;
  consumers: number;
  in_rate: number;
  out_rate: number;
  oldest_s: number;
  state: State;
  fill: number | null;
  full_in_s: number | null;
  paused: string;
  /** Values in steps of ten seconds, the last one is current. */
  trend: number[];
  /** Values of optional columns. */
  [more: string]: unknown;
}

export interface Page {
  items: DestinationStats[];
  next: string | null;
  approx_total: number;
}

/** A row of `$mom.destinations`: the address, then values in a fixed order. */
type StatsRow = [string, number, number, number, number, number, number, State, number | null, number | null];

/** Changed statistics by address. */
export type ChangedStats = Map<string, Partial<DestinationStats>>;

/** Subscribe to changes, at most once a second. Returns the function that ends it. */
export function onStatsChanged(receive: (moves: ChangedStats) => void): () => void {
  return session.subscribe("/topic/$mom.destinations", (body) => {
    const { rows } = JSON.parse(body) as { rows: StatsRow[] };
    receive(new Map(rows.map((row) => [row[0], statsOf(row)])));
  });
}

function statsOf([, depth, unsettled, consumers, in_rate, out_rate, oldest_s, state, fill, full_in_s]: StatsRow): Partial<DestinationStats> {
  return { depth, unsettled, consumers, in_rate, out_rate, oldest_s, state, fill, full_in_s };
}

/** Subscribe to created and deleted queues. */
export function onCreatedOrDeleted(receive: (event: { gone: boolean; destination: string }) => void): () => void {
  const hear = (topic: string, gone: boolean) =>
    session.subscribe(`/topic/$mom.dest.${topic}`, (body) => {
      const event = JSON.parse(body) as { data: { destination: string } };
      receive({ gone, destination: event.data.destination });
    });
  const leave = [hear("created", false), hear("deleted", true)];
  return () => {
    for (const end of leave) end();
  };
}
