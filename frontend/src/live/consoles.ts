/** The consoles of other brokers, and the page that is shown as one of them has it. */

const { basePath = "/" } = document.body.dataset;

/** The console of this page. */
export const OWN = (location.origin + basePath).replace(/\/$/, "");

/** The page that is shown, at another broker. */
export function pageAt(web: string): string {
  return `${web}/${location.href.slice(OWN.length + 1)}`;
}

/** Those of some consoles that are others, and that a page may go to: from HTTPS not to one without it. */
export function othersOf(consoles: Iterable<string>): string[] {
  const known = new Set(consoles);
  known.delete(OWN);
  return [...known].filter((web) => web.startsWith("https:") || location.protocol === "http:");
}

/** The addresses in a message of `$mom.failover`. */
export function urisOf(list: string[] | { uris?: string[] }): string[] {
  return Array.isArray(list) ? list : (list.uris ?? []);
}
