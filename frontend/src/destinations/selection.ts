/** The selected rows of a list: some by name, or all that match, on all pages. */
export class Selection {
  /** Whether all matching destinations are selected. */
  all = false;
  #names = new Set<string>();

  get names(): string[] {
    return [...this.#names];
  }

  has(name: string): boolean {
    return this.all || this.#names.has(name);
  }

  /** The number of selected rows, of `total` that match. */
  count(total: number): number {
    return this.all ? total : this.#names.size;
  }

  /** Whether all of these are selected. */
  covers(shown: string[]): boolean {
    return this.all || (this.#names.size > 0 && this.#names.size === shown.length);
  }

  /** Select or deselect one of the rows that are `shown`; others are deselected when all were selected. */
  toggle(name: string, shown: string[]): void {
    if (this.all) this.#names = new Set(shown);
    this.all = false;
    if (!this.#names.delete(name)) this.#names.add(name);
  }

  choose(names: Iterable<string>, all = false): void {
    this.#names = new Set(names);
    this.all = all;
  }

  /** Deselect rows that are no longer shown. */
  keep(isShown: (name: string) => boolean): void {
    this.#names = new Set(this.names.filter(isShown));
  }
}
