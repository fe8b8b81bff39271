/** The order of a list of destinations: `sort` is a field, with - before it for descending. */

import type { DestinationStats } from "./stats.ts";

export type Direction = "ascending" | "descending";

/** How the list is sorted by this field; undefined when it is sorted by another one. */
export function directionOf(field: string, sort: string): Direction | undefined {
  if ((sort || "name") === field) return "ascending";
  return sort === `-${field}` ? "descending" : undefined;
}

/** The order after a click on the heading of a column: numbers are sorted in descending order first. */
export function nextSort(field: string, numeric: boolean, sort: string): string {
  const direction = directionOf(field, sort);
  if (direction === undefined) return numeric ? `-${field}` : field;
  return direction === "ascending" ? `-${field}` : field;
}

/** Whether the rows are still in their order. States and names are compared by the broker. */
export function isInOrder(rows: DestinationStats[], sort: string): boolean {
  const field = sort.replace("-", "");
  if (!field || field === "name" || field === "state") return true;
  const sign = sort.startsWith("-") ? -1 : 1;
  const values = rows.map((row) => Number(row[field] ?? -1));
  return values.every((value, index) => index === 0 || sign * (value - values[index - 1]!) >= 0);
}
