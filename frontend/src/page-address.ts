import { Source } from "./live/source.ts";

/** A change of the address's query: null or "" takes a name out. */
export type Change = Record<string, string | null>;

/**
 * What the address bar asks of the page: every choice, so that Back, reload and a copied link work.
 *
 * An island that follows it (`new Follow(this, () => [place])`) is told of each change, Back and Forward
 * included, and draws what the address says; the page is not asked for again meanwhile.
 */
export class PageAddress extends Source {
  /** The value of a name in the query, or "". */
  get(name: string): string {
    return new URLSearchParams(location.search).get(name) ?? "";
  }

  /** Goes to a changed query. Typing in a field replaces the entry, so that Back leaves the page in one step. */
  go(change: Change, { replace = false } = {}): void {
    const address = this.href(change);
    if (replace) history.replaceState({ ...history.state, htmx: true }, "", address);
    else history.pushState({ htmx: true }, "", address);
    this.changed();
  }

  /** The address of the page with `change` applied, for links. */
  href(change: Change = {}): string {
    const query = new URLSearchParams(location.search);
    for (const [name, value] of Object.entries(change)) {
      if (value) query.set(name, value);
      else query.delete(name);
    }
    const text = query.toString();
    return location.pathname + (text && `?${text}`);
  }

  /** Tells that the address has changed by itself. */
  read(): void {
    this.changed();
  }
}
