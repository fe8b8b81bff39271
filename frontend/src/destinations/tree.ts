/** The destinations of the explorer: levels of leaves and folds, as far as they are loaded. */

import type { DestinationState } from "../generated/tables.ts";
import type { ChangedStats } from "./stats.ts";

export interface Leaf {
  name: string;
  depth: number;
  state: DestinationState;
}

/** All names that begin with the prefix. */
export interface Fold {
  prefix: string;
  count: number;
  depth: number;
  state: DestinationState;
}

export type Item = Leaf | Fold;

/** The last part of a leaf's name, below a prefix. */
export function labelOf(name: string, above: string): string {
  return (name.startsWith(above) && name.slice(above.length)) || name;
}

/** Change the leaves that are shown; the names that are not. `changes` are by name. */
export function change(items: Item[], changes: ChangedStats): string[] {
  const left = new Set(changes.keys());
  for (const item of items) {
    const figures = "name" in item ? changes.get(item.name) : undefined;
    if (!("name" in item) || figures === undefined) continue;
    left.delete(item.name);
    item.depth = figures.depth ?? item.depth;
    item.state = figures.state ?? item.state;
  }
  return [...left];
}

/** Whether one of the names is not below a fold that is collapsed, and so has to be shown. */
export function hasNewcomers(names: string[], items: Item[], isOpen: (prefix: string) => boolean): boolean {
  const folded = items.flatMap((item) => ("prefix" in item && !isOpen(item.prefix) ? [item.prefix] : []));
  return names.some((name) => !folded.some((prefix) => name.startsWith(prefix)));
}
