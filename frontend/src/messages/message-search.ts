/** The search in the address: its requests, repeated after failures. */

import type { ReactiveControllerHost } from "lit";
import { Retry } from "../live/retry.ts";
import { pageAddress } from "../services.ts";
import { originOf } from "./path.ts";
import { browse, digest } from "./requests.ts";
import { parse } from "./search.ts";
import { SearchResults } from "./search-results.ts";

const PAGE = 50;

export class MessageSearch {
  readonly results = new SearchResults();
  /** The queue, and the parameters that were asked for. */
  #asked = "";
  readonly #retry: Retry;
  /** Whether the user has stopped the search, which else goes on until it has filled the page or seen all. */
  #halted = false;

  /** `ended` is called after each page. */
  constructor(
    private readonly host: ReactiveControllerHost & { queue: string },
    private readonly ended: () => void,
  ) {
    this.#retry = new Retry(host, () => void this.read());
  }

  /** Read the page in the address if it is another one; returns whether it is. */
  follow(): boolean {
    const asked = JSON.stringify([this.host.queue, pageAddress.get("q"), pageAddress.get("order"), pageAddress.get("after")]);
    if (asked === this.#asked) return false;
    this.#asked = asked;
    this.reload();
    return true;
  }

  reload(): void {
    this.#halted = false;
    this.results.digest = undefined;
    void this.read();
  }

  /** End the search after the request that is on its way. */
  halt(): void {
    this.#halted = true;
    this.host.requestUpdate();
  }

  /** Continue a search that was stopped. */
  goOn(): void {
    this.#halted = false;
    void this.read(true);
  }

  get #goesOn(): boolean {
    return this.results.stopped && !this.#halted && this.results.items.length < PAGE;
  }

  /** Load the page in the address; with `on`, continue a search that stopped. The current page stays visible meanwhile. */
  async read(on = false): Promise<void> {
    const { results } = this;
    const asked = this.#asked;
    results.begin();
    try {
      results.condition = parse(pageAddress.get("q"));
      const order = pageAddress.get("order") === "newest" ? "newest" : "oldest";
      const after = on ? results.next : pageAddress.get("after") || null;
      const page = await browse(this.host.queue, { condition: results.condition, order, after, limit: PAGE });
      if (asked !== this.#asked) return;
      results.take(page, on);
      this.#retry.after();
      if (results.digest === undefined && results.items.some((item) => originOf(item))) void this.#count(asked);
    } catch (error) {
      if (asked !== this.#asked) return;
      results.fail(error);
      this.#retry.after(error);
    }
    this.host.requestUpdate();
    if (this.results.state === "shown" && this.#goesOn) return this.read(true);
    this.ended();
  }

  /** Count dead letters by origin and reason. */
  async #count(asked: string): Promise<void> {
    const found = await digest(this.host.queue, this.results.condition).catch(() => undefined);
    if (asked !== this.#asked) return;
    this.results.digest = found;
    this.host.requestUpdate();
  }
}
