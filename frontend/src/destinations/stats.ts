/** What is known of the destinations of a list, and how it stays true. */

import { session } from "../services.ts";

export type Kind = "queue" | "topic";
export type State = "at-limit" | "no-consumer" | "growing" | "paused" | "flowing" | "idle";

/** One destination. Rates are messages a second; `fill` is how much of its limit is used, from 0 to 1. */
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
  /** Numbers in steps of ten seconds, the last one now. */
  trend: number[];
  /** What only some columns show. */
  [more: string]: unknown;
}

export interface Page {
  items: DestinationStats[];
  next: string | null;
  approx_total: number;
}

/** As `$mom.moved` tells it: the address, then figures in a fixed order. */
type StatsRow = [string, number, number, number, number, number, number, State, number | null, number | null];

/** What moved in a second, by address. */
export type ChangedStats = Map<string, Partial<DestinationStats>>;

/** Hears what moves, once a second at most, until the returned function is called. */
export function onStatsChanged(receive: (moves: ChangedStats) => void): () => void {
  return session.subscribe("/topic/$mom.moved", (body) => {
    const { rows } = JSON.parse(body) as { rows: StatsRow[] };
    receive(new Map(rows.map((row) => [row[0], statsOf(row)])));
  });
}

function statsOf([, depth, unsettled, consumers, in_rate, out_rate, oldest_s, state, fill, full_in_s]: StatsRow): Partial<DestinationStats> {
  return { depth, unsettled, consumers, in_rate, out_rate, oldest_s, state, fill, full_in_s };
}

/** Hears that queues came into being or are gone. */
export function onCreatedOrDeleted(receive: (event: { gone: boolean; destination: string }) => void): () => void {
  const hear = (topic: string, gone: boolean) =>
    session.subscribe(`/topic/$mom.dest.${topic}`, (body) => {
      const event = JSON.parse(body) as { data: { destination: string } };
      receive({ gone, destination: event.data.destination });
    });
  const leave = [hear("created", false), hear("deleted", true)];
  return () => leave.forEach((end) => end());
}
