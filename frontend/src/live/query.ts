/** What a page shows, as its address says it: each choice is a parameter, and one at its start is left out. */
export class Choices<Name extends string> {
  constructor(private readonly starts: Record<Name, string>) {}

  get(name: Name): string {
    return new URLSearchParams(location.search).get(name) ?? this.starts[name];
  }

  /** The address of the page with `change` applied, for links. */
  href(change: Partial<Record<Name, string>>): string {
    const query = new URLSearchParams(location.search);
    for (const [name, value] of Object.entries(change) as [Name, string][]) {
      if (value === this.starts[name]) query.delete(name);
      else query.set(name, value);
    }
    const text = query.toString();
    return location.pathname + (text && `?${text}`);
  }

  /** Goes there; what is typed replaces the entry, so that Back leaves the page in one step. */
  go(change: Partial<Record<Name, string>>, { replace = false } = {}): void {
    if (replace) history.replaceState(history.state, "", this.href(change));
    else history.pushState(null, "", this.href(change));
  }
}
