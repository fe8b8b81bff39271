/** What a search found: the messages of a page, and how far it came. */

import { gettext, ngettext } from "../gettext.ts";
import { RequestRefused } from "../live/rest.ts";
import { count } from "../view/format.ts";
import { faultOf, type Digest, type Message, type MessagePage } from "./requests.ts";
import { SearchError, isEmpty, type Condition } from "./search.ts";

export class SearchResults {
  /** `missing`: the queue does not exist. `failed`: the broker was not reached; what is shown is older. */
  state: "loading" | "shown" | "missing" | "failed" = "loading";
  /** Whether nothing was shown yet. */
  isFirst = true;
  condition: Condition = {};
  items: Message[] = [];
  next: string | null = null;
  total = 0;
  scanned = 0;
  /** Whether the search reached its limit, and can be continued. */
  stopped = false;
  /** Whether the page in the address is of another journal, and the first one is shown. */
  unknownPosition = false;
  /** In a cluster the broker that was asked; and those whose messages are missing. */
  broker = "";
  notShown: string[] = [];
  /** Why the broker was not reached; why the search is invalid. */
  error = "";
  searchError = "";
  digest: Digest | undefined;
  /** What has become of the queue since then: nothing, that it has no messages any more, or anything else. */
  since: "" | "emptied" | "changed" = "";

  /** A search begins; the messages of the last one stay until it has ended. */
  begin(): void {
    this.state = "loading";
    this.searchError = "";
    this.since = "";
  }

  /** Take a page; with `on`, it continues the one before, unless that was of another journal. */
  take(page: MessagePage, on: boolean): void {
    const isFirst = !on || page.unknown_position === true;
    this.items = isFirst ? page.items : [...this.items, ...page.items];
    this.scanned = (isFirst ? 0 : this.scanned) + page.scanned;
    this.next = page.next;
    this.total = page.approx_total;
    this.stopped = page.stopped;
    this.unknownPosition = page.unknown_position === true || (on && this.unknownPosition);
    this.broker = page.broker ?? "";
    this.notShown = page.not_shown;
    this.state = "shown";
    this.isFirst = false;
  }

  /** Compare with the queue, which has changed and has so many messages now; returns whether there is anything new to say. */
  compare(left: number): boolean {
    const before = this.since;
    // What is shown of an empty queue is up to date by itself, and others may have what this broker has not.
    if (this.state === "shown" && (this.items.length > 0 || !isEmpty(this.condition))) {
      this.since = left === 0 && this.broker === "" ? "emptied" : "changed";
    }
    return this.since !== before;
  }

  fail(error: unknown): void {
    const status = error instanceof RequestRefused ? error.problem.status : undefined;
    if (error instanceof SearchError || status === 400) {
      this.searchError = (error as Error).message;
      this.state = "shown";
      this.items = [];
      this.next = null;
      this.isFirst = false;
    } else if (status === 404) {
      this.state = "missing";
      this.items = [];
    } else {
      this.state = "failed";
      this.error = faultOf(error, gettext("The broker cannot be reached."));
    }
  }

  /** How many messages are shown, of how many. */
  get summary(): string {
    if (this.state === "loading") return this.isFirst ? "" : gettext("Searching…");
    if (this.state !== "shown" || this.total === 0) return "";
    const all = ngettext("{count} message in the queue", "{count} messages in the queue", this.total);
    // The digest is that of this broker alone.
    const matches = this.digest && this.broker === "" && !this.digest.stopped ? this.digest.matches : undefined;
    if (!isEmpty(this.condition)) {
      if (matches !== undefined) return ngettext("{count} of {all} matches", "{count} of {all} match", matches, { all });
      if (this.next !== null) return gettext("at least {found} of {all} match", { found: count(this.items.length), all });
    }
    return ngettext("{count} shown of {all}", "{count} shown of {all}", this.items.length, { all });
  }
}
