/** Destinations that the user has marked in this browser, for the tree. */

import { Source } from "./live/source.ts";

/** Each user has a separate list. */
const KEY = `mom.favourites.${document.body.dataset.user}`;
const MOST = 20;

class Favourites extends Source {
  /** Addresses, as `/queue/orders`, in the order in which they were marked. */
  get addresses(): string[] {
    return JSON.parse(localStorage.getItem(KEY) ?? "[]") as string[];
  }

  has(address: string): boolean {
    return this.addresses.includes(address);
  }

  /** Marks a destination, or takes the mark away; the oldest mark goes if there are too many. */
  toggle(address: string): void {
    const others = this.addresses.filter((one) => one !== address);
    const marked = this.has(address) ? others : [...others, address].slice(-MOST);
    localStorage.setItem(KEY, JSON.stringify(marked));
    this.changed();
  }
}

export const favourites = new Favourites();
