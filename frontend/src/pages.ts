/** Addresses of the console's pages. */

import { bareName, isQueue } from "./view/name.ts";

const { basePath = "/" } = document.body.dataset;

/** A page by its address below the console. */
export function consolePage(path: string): string {
  return `${basePath}console/${path}`;
}

/** The list of queues, filtered and sorted. */
export function queuesPage(asked: Record<string, string>): string {
  return consolePage(`queues/?${new URLSearchParams(asked)}`);
}

/** The page of a destination, with a tab and further parameters. */
export function pageOf(destination: string, tab = "", more: Record<string, string> = {}): string {
  const query = new URLSearchParams({ name: bareName(destination), ...(tab && { tab }), ...more });
  return `${basePath}console/${isQueue(destination) ? "queues" : "topics"}/one?${query}`;
}

/** The page of a client; `id` is the session header of its CONNECTED frame. */
export function connectionPage(id: string): string {
  return `${basePath}console/connections/one?${new URLSearchParams({ id })}`;
}

/** The page of a job, or of all of them. */
export function pageOfJob(id = ""): string {
  return `${basePath}console/jobs/${id && `one?${new URLSearchParams({ id })}`}`;
}

/** The list of services, filtered. */
export function servicesPage(asked: Record<string, string>): string {
  return consolePage(`services/?${new URLSearchParams(asked)}`);
}

/** The page of a service, by the id of its registration. */
export function servicePage(id: string): string {
  return consolePage(`services/one?${new URLSearchParams({ id })}`);
}
