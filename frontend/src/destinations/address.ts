/** Queues and topics in addresses of the API and in names of `$mom` topics. */

import { WILDCARDS } from "../generated/tables.ts";
import { address, type Query } from "../live/requests.ts";

export type Kind = "queue" | "topic";

const SPELLED: Record<string, string> = WILDCARDS;

/** The `$mom` topic about a destination: `topicOf("stats", "orders")`. */
export function topicOf(about: string, name: string): string {
  const levels = name.split(".").map((level) => SPELLED[level] ?? level);
  return `/topic/$mom.${about}.${levels.join(".")}`;
}

/** The address of a queue or topic below `/api/v1/`. */
export function pathOf(kind: Kind, name: string, rest = "", query: Query = {}): string {
  // In the query any name fits.
  return address(`${kind}s${rest && `/${rest}`}`, { [kind]: name, ...query });
}
