/** The page of a list of destinations that the address asks for, as the broker gave it. */

import type { ReactiveControllerHost } from "lit";
import { MAX_PAGE } from "../generated/tables.ts";
import { errorText, read, type Query } from "../live/requests.ts";
import { Retry } from "../live/retry.ts";
import { pageAddress } from "../services.ts";
import type { Kind } from "./address.ts";
import { chosenColumns, membersOf, type Column } from "./columns.ts";
import type { DestinationStats, Page } from "./stats.ts";

export const CHOICES_OF_ROWS = [100, 500, 1_000];
export const ROWS = 100;

export class Listing {
  page: Page | undefined;
  columns: Column[] = [];
  /** The error of the last request, and the time of the rows that are shown. */
  fault = "";
  readAt = "";
  /** The number of destinations without the filter, if none matches. */
  unfiltered: number | undefined;
  /** Counts readings: only the latest counts. */
  #readings = 0;
  readonly #retry: Retry;

  /** `shown` is called with each new page. */
  constructor(
    private readonly host: ReactiveControllerHost & { kind: Kind },
    private readonly shown: (page: Page) => void,
  ) {
    this.#retry = new Retry(host, () => void this.read());
  }

  get filters(): Query {
    return { q: pageAddress.get("filter"), state: pageAddress.get("state"), consumed: pageAddress.get("consumed") };
  }

  get isFiltered(): boolean {
    return Object.values(this.filters).some(Boolean);
  }

  /** The number of rows on a page. */
  get rows(): number {
    const asked = Number(pageAddress.get("rows"));
    return CHOICES_OF_ROWS.includes(asked) ? asked : ROWS;
  }

  /** Load and show the page in the address. */
  async read(): Promise<void> {
    const reading = ++this.#readings;
    this.columns = chosenColumns(this.host.kind, pageAddress.get("columns"));
    this.host.requestUpdate();
    try {
      const page = await this.gather({ sort: pageAddress.get("sort"), after: pageAddress.get("after") }, this.columns, this.rows);
      const isEmpty = page.items.length === 0 && this.isFiltered;
      const unfiltered = isEmpty ? (await read<Page>(this.#path, { limit: 1, fields: "name" })).approx_total : undefined;
      if (reading !== this.#readings) return;
      this.page = page;
      this.unfiltered = unfiltered;
      this.fault = "";
      this.readAt = new Date().toISOString();
      this.#retry.after();
      this.shown(page);
    } catch (fault) {
      if (reading !== this.#readings) return;
      this.fault = errorText(fault);
      this.#retry.after(fault);
    }
    this.host.requestUpdate();
  }

  /** Up to `most` rows that match the filters, however many requests that takes. */
  async gather(query: Query, columns: Column[], most: number): Promise<Page> {
    const items: DestinationStats[] = [];
    let { after } = query;
    for (;;) {
      const limit = Math.min(MAX_PAGE, most - items.length);
      const page = await read<Page>(this.#path, { ...this.filters, ...query, fields: membersOf(columns).join(","), after, limit });
      items.push(...page.items);
      if (page.next === null || items.length >= most) return { ...page, items };
      after = page.next;
    }
  }

  get #path(): string {
    return `${this.host.kind}s`;
  }
}
