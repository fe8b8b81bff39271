import type { Destination } from "../live/rest.ts";

export type SortKey = "name" | "depth" | "in" | "out" | "oldest" | "unsettled" | "consumers";

const SORT_VALUE: Record<SortKey, (destination: Destination) => number | string> = {
  name: (destination) => destination.name,
  depth: (destination) => destination.depth,
  in: (destination) => destination.in_rate,
  out: (destination) => destination.out_rate,
  oldest: (destination) => destination.oldest_s,
  unsettled: (destination) => destination.unsettled,
  consumers: (destination) => destination.consumers,
};

/** What the address asks of a list. `sort` is a column key, with a leading "-" for descending. */
export interface Choice {
  filter: string;
  kind: string;
  sort: string;
}

/** The destinations that a choice asks for, in its order; equal ones by name. */
export function chosen(destinations: Iterable<Destination>, choice: Choice): Destination[] {
  const matches = matcher(choice.filter);
  const found = [...destinations].filter(
    (destination) => (!choice.kind || (choice.kind === "topic") === (destination.kind === "topic")) && matches(destination.name),
  );
  const descending = choice.sort.startsWith("-");
  const value = SORT_VALUE[choice.sort.replace("-", "") as SortKey] ?? SORT_VALUE.name;
  return found.sort((a, b) => {
    const order = compare(value(a), value(b));
    return (descending ? -order : order) || compare(a.name, b.name);
  });
}

function compare(a: number | string, b: number | string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

/** A glob when it has a star, otherwise words that must all be in the name; case does not matter. */
function matcher(filter: string): (name: string) => boolean {
  const wanted = filter.trim().toLowerCase();
  if (wanted.includes("*")) {
    const escaped = wanted.split("*").map((part) => part.replace(/[.+?^${}()|[\]\\]/g, "\\$&"));
    // A glob may leave out the /queue/ or /topic/ in front.
    const glob = new RegExp(`^(/(queue|topic)/)?${escaped.join(".*")}$`);
    return (name) => glob.test(name.toLowerCase());
  }
  const words = wanted.split(/\s+/);
  return (name) => words.every((word) => name.toLowerCase().includes(word));
}
