/** Statistics of the destinations of a list, and subscriptions to their changes. */

import { STATS_COLUMNS, type DestinationState } from "../generated/tables.ts";
import { session } from "../services.ts";

/** One destination. Rates are messages per second; `fill` is the used share of its limit, from 0 to 1. */
export interface DestinationStats {
  name: string;
  depth: number;
  unsettled: number;
  consumers: number;
  in_rate: number;
  out_rate: number;
  oldest_s: number;
  state: DestinationState;
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

/** Changed statistics by address. */
export type ChangedStats = Map<string, Partial<DestinationStats>>;

/** Subscribe to changes, at most once a second. Returns the function that ends it. */
export function onStatsChanged(receive: (changes: ChangedStats) => void): () => void {
  return session.subscribe("/topic/$mom.destinations", (body) => {
    const { rows } = JSON.parse(body) as { rows: StatsRow[] };
    receive(changesOf(rows));
  });
}

/** A row of `$mom.destinations`: the address, then the values of STATS_COLUMNS. */
type StatsRow = [address: string, ...unknown[]];

export function changesOf(rows: StatsRow[]): ChangedStats {
  return new Map(rows.map(([address, ...values]) => [address, Object.fromEntries(STATS_COLUMNS.map((name, at) => [name, values[at]]))]));
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
