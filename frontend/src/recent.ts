/** Recent pages of this browser, for the palette. */

const RECENT = 8;
/** Each user has a separate list. */
const RECENT_KEY = `mom.recent.${document.body.dataset.user}`;

interface Visited {
  label: string;
  href: string;
}

/** The pages that were shown last, the newest first. */
export function recent(): Visited[] {
  return JSON.parse(localStorage.getItem(RECENT_KEY) ?? "[]") as Visited[];
}

/** Add the current page to the recent ones. */
export function remember(): void {
  const heading = document.querySelector("#main h1")?.textContent.trim();
  if (!heading) return;
  const here = { label: heading, href: location.pathname + location.search };
  const others = recent().filter(({ href }) => new URL(href, location.href).pathname !== location.pathname || !sameName(href));
  localStorage.setItem(RECENT_KEY, JSON.stringify([here, ...others].slice(0, RECENT)));
}

function sameName(href: string): boolean {
  return new URL(href, location.href).searchParams.get("name") === new URLSearchParams(location.search).get("name");
}
