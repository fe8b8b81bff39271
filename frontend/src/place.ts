import { Source } from "./live/source.ts";

/** What the address bar says: every choice on the page, so that Back, reload and a copied link work. */
export interface Choice {
  filter: string;
  kind: "" | "queue" | "topic";
  /** A column key, with a leading "-" for descending. */
  sort: string;
}

const START: Choice = { filter: "", kind: "", sort: "name" };

export class Place extends Source {
  choice: Choice = read(location.search);

  constructor() {
    super();
    addEventListener("popstate", () => {
      this.choice = read(location.search);
      this.changed();
    });
  }

  /** Goes to a changed choice. Typing in a field replaces the entry, so that Back leaves the page in one step. */
  go(change: Partial<Choice>, { replace = false } = {}): void {
    this.choice = { ...this.choice, ...change };
    const url = this.href();
    if (replace) history.replaceState(null, "", url);
    else history.pushState(null, "", url);
    this.changed();
  }

  /** Follows a link to this very page without loading it again. */
  visit(url: URL): void {
    history.pushState(null, "", url);
    this.choice = read(url.search);
    this.changed();
  }

  /** The address of the page with `change` applied, for links. */
  href(change: Partial<Choice> = {}): string {
    const query = new URLSearchParams();
    for (const [key, value] of Object.entries({ ...this.choice, ...change })) {
      if (value !== START[key as keyof Choice]) query.set(key, value);
    }
    const text = query.toString();
    return location.pathname + (text && `?${text}`);
  }
}

function read(search: string): Choice {
  const query = new URLSearchParams(search);
  const entries = Object.entries(START).map(([key, value]) => [key, query.get(key) ?? value]);
  return Object.fromEntries(entries) as Choice;
}
