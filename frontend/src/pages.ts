/** Addresses of the console's pages. */

import { bareName, isQueue } from "./view/name.ts";

const { basePath = "/" } = document.body.dataset;

/** The page of a destination, at one of its tabs. */
export function pageOf(destination: string, tab = ""): string {
  const query = new URLSearchParams({ name: bareName(destination), ...(tab && { tab }) });
  return `${basePath}console/${isQueue(destination) ? "queues" : "topics"}/one?${query}`;
}
