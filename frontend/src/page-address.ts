import { Source } from "./live/source.ts";

/** A change of the address's query: null or "" takes a name out. */
export type Change = Record<string, string | null>;

/**
 * The state of the page in its address, so that Back, reload and copied links work. Islands that follow it (`new
 * Follow(this, () => [pageAddress])`) are notified of each change, Back and Forward included, and render what the
 * address contains, without loading the page again.
 */
export class PageAddress extends Source {
  /** The value of a name in the query, or "". */
  get(name: string): string {
    return new URLSearchParams(location.search).get(name) ?? "";
  }

  /** Change the query. Typing in a field replaces the history entry, so that Back leaves the page in one step. */
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

  /** Notify that the address has changed by navigation. */
  read(): void {
    this.changed();
  }
}
