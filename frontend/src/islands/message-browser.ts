import { html, nothing, type TemplateResult } from "lit";
import { repeat } from "lit/directives/repeat.js";
import { bindShortcuts } from "../shortcuts.ts";
import { Retry } from "../live/retry.ts";
import { RequestRefused } from "../live/rest.ts";
import { Follow } from "../live/source.ts";
import { openBulkDialog, type Op } from "../messages/actions.ts";
import { retryOne } from "../messages/single-message.ts";
import { originOf, reasonOf } from "../messages/path.ts";
import { browse, digest, faultOf, one, rightsTo, type Digest, type Job, type Message } from "../messages/requests.ts";
import { SearchError, isEmpty, parse, toggled, type Condition } from "../messages/search.ts";
import { loadModule } from "../load-module.ts";
import { pageOf } from "../pages.ts";
import { gettext, ngettext } from "../gettext.ts";
import { pageAddress, server, session } from "../services.ts";
import "../style/messages.css";
import { bodyOf, preview } from "../view/body.ts";
import { ago, bytes, count, fullTime } from "../view/format.ts";
import { publishSnippets } from "../view/snippets.ts";
import { Island } from "./island.ts";
import "./message-detail.ts";
import { snippetBlock } from "./snippet-block.ts";

const PAGE = 50;
/** Reasons of dead letters that the summary names at most. */
const NAMED = 5;
const SHOWN_HEADERS = 3;
/** Headers with the reason of dead letters, which are shown elsewhere. */
const DEAD_LETTER_HEADERS = /^(origin|origin-topic|sent-at|dead-.*)$/;

/**
 * The messages of a queue: search, selection, details and actions. Browsing changes nothing: no delivery, no count,
 * no order. The address is the state: `q`, `order`, `after`, and `message`, the one that is opened.
 */
export class MessageBrowser extends Island {
  /** Without its kind: `orders`. */
  static override properties = { queue: {} };

  declare queue: string;

  #query = "";
  #condition: Condition = {};
  #items: Message[] = [];
  #next: string | null = null;
  #total = 0;
  #scanned = 0;
  #stopped = false;
  #state: "loading" | "shown" | "missing" | "failed" = "loading";
  #first = true;
  #error = "";
  #searchError = "";
  #digest: Digest | undefined;
  #rightsHere: string[] | undefined;
  #selected = new Map<string, Message>();
  /** The opened message, if it is not on the page that is shown. */
  #openedElsewhere: Message | "gone" | undefined;
  /** Changes of the queue since it was loaded: messages in and out. */
  #changedSinceLoad = false;
  #unbind: (() => void) | undefined;
  readonly #retrying = new Retry(this, () => void this.#read());
  #unsubscribe: (() => void) | undefined;
  readonly #jobEnded = (event: Event) => this.#afterJob((event as CustomEvent<Job>).detail);

  constructor() {
    super();
    new Follow(this, () => [pageAddress]);
  }

  override connectedCallback(): void {
    super.connectedCallback();
    if (this.#isTail) void loadModule(() => import("./message-tail.ts"));
    this.#unbind = bindShortcuts(
      { keys: "r", label: gettext("Retry the message, or the selection"), action: () => this.#retry() },
      { keys: "m", label: gettext("Move the message, or the selection"), action: () => this.#move() },
    );
    document.addEventListener("mom:job-ended", this.#jobEnded);
    let beginning = true;
    this.#unsubscribe = session.subscribe(`/topic/$mom.stats.${inTopic(this.queue)}`, () => {
      // The first report is the current state.
      if (!beginning) this.#changed();
      beginning = false;
    });
  }

  override disconnectedCallback(): void {
    super.disconnectedCallback();
    this.#unbind?.();
    this.#unsubscribe?.();
    document.removeEventListener("mom:job-ended", this.#jobEnded);
  }

  protected override willUpdate(): void {
    const asked = JSON.stringify([this.queue, pageAddress.get("q"), pageAddress.get("order"), pageAddress.get("after")]);
    if (asked !== this.#query) {
      this.#query = asked;
      this.#digest = undefined;
      void this.#read();
      void this.#rights();
    } else if (this.#state !== "loading") {
      void this.#findOpened();
    }
  }

  get #isTail(): boolean {
    return pageAddress.get("tail") === "on";
  }

  // ------------------------------------------------------------------ reading

  /** Load the page in the address; with `on`, continue a search that stopped. The current page stays visible meanwhile. */
  async #read(on = false): Promise<void> {
    const asked = this.#query;
    this.#state = "loading";
    this.#searchError = "";
    this.#changedSinceLoad = false;
    try {
      this.#condition = parse(pageAddress.get("q"));
      const order = pageAddress.get("order") === "newest" ? "newest" : "oldest";
      const after = on ? this.#next : pageAddress.get("after") || null;
      const page = await browse(this.queue, { condition: this.#condition, order, after, limit: PAGE });
      if (asked !== this.#query) return;
      this.#items = on ? [...this.#items, ...page.items] : page.items;
      this.#scanned = (on ? this.#scanned : 0) + page.scanned;
      [this.#next, this.#total, this.#stopped] = [page.next, page.approx_total, page.stopped];
      this.#state = "shown";
      this.#first = false;
      this.#retrying.after();
      if (this.#digest === undefined && this.#items.some((item) => originOf(item))) void this.#count(asked);
    } catch (error) {
      if (asked !== this.#query) return;
      this.#fail(error);
      this.#retrying.after(error);
    }
    this.requestUpdate();
    void this.#findOpened();
  }

  #fail(error: unknown): void {
    if (error instanceof SearchError) {
      this.#searchError = error.message;
      this.#state = this.#first ? "loading" : "shown";
      this.#items = [];
      this.#next = null;
      this.#first = false;
    } else if (error instanceof RequestRefused && error.problem.status === 404) {
      this.#state = "missing";
      this.#items = [];
    } else if (error instanceof RequestRefused && error.problem.status === 400) {
      this.#searchError = error.message;
      this.#state = "shown";
      this.#items = [];
      this.#next = null;
      this.#first = false;
    } else {
      this.#state = "failed";
      this.#error = faultOf(error, gettext("The broker cannot be reached."));
    }
  }

  async #count(asked: string): Promise<void> {
    const found = await digest(this.queue, this.#condition).catch(() => undefined);
    if (asked !== this.#query) return;
    this.#digest = found;
    this.requestUpdate();
  }

  async #rights(): Promise<void> {
    // The rights on a queue that does not exist are unknown, and not needed.
    this.#rightsHere ??= await rightsTo(this.queue).catch(() => undefined);
    this.requestUpdate();
  }

  async #findOpened(): Promise<void> {
    const id = pageAddress.get("message");
    const known = typeof this.#openedElsewhere === "object" ? this.#openedElsewhere.id : undefined;
    if (!id || this.#items.some((item) => item.id === id)) {
      if (this.#openedElsewhere !== undefined) this.requestUpdate();
      this.#openedElsewhere = undefined;
      this.#missingId = "";
    } else if (known !== id && this.#missingId !== id) {
      this.#missingId = id;
      this.#openedElsewhere = await one(this.queue, id).catch((): "gone" => "gone");
      this.requestUpdate();
    }
  }

  /** The id that was requested and not found. */
  #missingId = "";

  #changed(): void {
    if (this.#changedSinceLoad || this.#state !== "shown") return;
    this.#changedSinceLoad = true;
    this.requestUpdate();
  }

  #reload(): void {
    this.#digest = undefined;
    void this.#read();
  }

  #afterJob(job: Job): void {
    const ours = [job.source, job.target].includes(`/queue/${this.queue}`) || job.target === "origin";
    if (!ours || job.op === "export") return;
    this.#selected.clear();
    this.#reload();
  }

  // ------------------------------------------------------------------ the page

  protected override render() {
    return html`
      ${this.#box()} ${this.#isTail ? nothing : [this.#facts(), this.#opened(), this.#list(), this.#bulk()]}
      ${this.#isTail ? html`<mom-message-tail .address=${`/queue/${this.queue}`}></mom-message-tail>` : nothing}
    `;
  }

  #box(): TemplateResult {
    const newest = pageAddress.get("order") === "newest";
    const search = (event: SubmitEvent) => {
      event.preventDefault();
      const text = this.querySelector<HTMLInputElement>("#search")!.value.trim();
      pageAddress.go({ q: text, after: "", message: "" });
    };
    const order = (value: string) => pageAddress.go({ order: value, after: "", message: "" });
    return html`<form class="message-search" role="search" data-island @submit=${search}>
        <div class="tools">
          <input
            id="search" type="search" name="q" autocomplete="off" spellcheck="false" enterkeyhint="search" ?disabled=${this.#isTail}
            aria-label=${gettext("Search messages")} aria-invalid=${this.#searchError ? "true" : nothing} aria-describedby="search-help"
            placeholder=${gettext("words, header.tenant=acme, age>1h, reason:…")} .value=${pageAddress.get("q")}
          />
          <button type="submit" ?disabled=${this.#isTail}>${gettext("Search")}</button>
          <div class="segments" role="group" aria-label=${gettext("Start at")}>
            <button type="button" aria-pressed=${!newest} @click=${() => order("")}>${gettext("Oldest")}</button>
            <button type="button" aria-pressed=${newest} @click=${() => order("newest")}>${gettext("Newest")}</button>
          </div>
          <button type="button" aria-pressed=${this.#isTail} @click=${() => void this.#toggleTail()}>
            ${this.#isTail ? gettext("■ Stop tailing") : gettext("▷ Tail")}
          </button>
        </div>
        <details class="search-help" id="search-help">
          <summary>${gettext("Search syntax")}</summary>
          <dl class="pairs">
            <dt translate="no">paid invoice</dt><dd>${gettext("text in bodies or headers, not case-sensitive")}</dd>
            <dt translate="no">header.tenant="acme ltd"</dt><dd>${gettext("a header with this value; also type:, content-type:, correlation-id:")}</dd>
            <dt translate="no">age&gt;1h age&lt;2d</dt><dd>${gettext("age of the message in the queue: s, min, h, d")}</dd>
            <dt translate="no">reason:"schema v3" origin:orders</dt><dd>${gettext("reason and origin of a dead letter")}</dd>
            <dt translate="no">is:unsettled</dt><dd>${gettext("delivered and not yet settled; also is:ready, is:delayed")}</dd>
            <dt translate="no">id:01J…</dt><dd>${gettext("one message")}</dd>
            <dt translate="no">colour = 'red' AND size &gt; 3</dt><dd>${gettext("a selector: operators with spaces around them")}</dd>
          </dl>
        </details>
        ${this.#searchError ? html`<p class="hint" data-tone="bad" role="alert">■ ${this.#searchError}</p>` : nothing}
      </form>`;
  }

  async #toggleTail(): Promise<void> {
    // New messages are in the list, too.
    if (this.#isTail) this.#reload();
    else await loadModule(() => import("./message-tail.ts"));
    pageAddress.go({ tail: this.#isTail ? "" : "on", message: "" }, { replace: true });
  }

  #facts(): TemplateResult {
    const found = this.#digest;
    return html`<div class="message-facts">
      <p class="quiet" role="status">
        ${this.#summary()}
        ${
          this.#changedSinceLoad
            ? html` · ${gettext("the queue has changed since then")}
              <button type="button" class="link" @click=${() => this.#reload()}>${gettext("Refresh")}</button>`
            : nothing
        }
      </p>
      ${found ? [this.#shares("origin", gettext("Origin"), found.by_origin), this.#shares("reason", gettext("Reason"), found.by_reason)] : nothing}
      ${found?.stopped ? html`<p class="quiet">${gettext("Counts of the first {scanned} messages.", { scanned: count(found.scanned) })}</p>` : nothing}
    </div>`;
  }

  #summary(): string {
    if (this.#state === "loading" && this.#first) return "";
    if (this.#state === "loading") return gettext("Searching…");
    if (this.#state !== "shown" || this.#total === 0) return "";
    const all = ngettext("{count} message in the queue", "{count} messages in the queue", this.#total);
    if (isEmpty(this.#condition)) return ngettext("{count} shown of {all}", "{count} shown of {all}", this.#items.length, { all });
    const matches = this.#digest && !this.#digest.stopped ? this.#digest.matches : undefined;
    if (matches !== undefined) return ngettext("{count} of {all} matches", "{count} of {all} match", matches, { all });
    const more = this.#next !== null;
    return more
      ? gettext("at least {found} of {all} match", { found: count(this.#items.length), all })
      : ngettext("{count} shown of {all}", "{count} shown of {all}", this.#items.length, { all });
  }

  #shares(name: "origin" | "reason", label: string, counts: Record<string, number>): TemplateResult | typeof nothing {
    const entries = Object.entries(counts);
    if (entries.length === 0) return nothing;
    const chosen = this.#condition[name];
    return html`<p class="shares">
      <span class="quiet">${label}</span>
      ${entries.slice(0, NAMED).map(
        ([value, number]) => html`<button
          type="button" class="share" aria-pressed=${chosen === value}
          title=${chosen === value ? gettext("Show all") : gettext("Show only these")}
          @click=${() => pageAddress.go({ q: toggled(pageAddress.get("q"), name, value), after: "", message: "" })}
        >${value || gettext("none")} <span class="num">${count(number)}</span></button>`,
      )}
      ${entries.length > NAMED ? html`<span class="quiet">${gettext("and {more} more", { more: entries.length - NAMED })}</span>` : nothing}
    </p>`;
  }

  /** The message of a permalink that is not on this page. */
  #opened(): TemplateResult | typeof nothing {
    if (this.#openedElsewhere === undefined) return nothing;
    const close = () => pageAddress.go({ message: "" }, { replace: true });
    if (this.#openedElsewhere === "gone") {
      return html`<p class="notice" data-tone="warn">
        ${gettext("Message {id} is no longer in {queue}: it was consumed, moved or deleted.", { id: pageAddress.get("message"), queue: this.queue })}
        <button type="button" class="link" @click=${close}>${gettext("Show the other messages")}</button>
      </p>`;
    }
    return html`<section class="apart" aria-label=${gettext("Linked message")}>
      <div class="headline">
        <h2>#${count(this.#openedElsewhere.position)} <code>${this.#openedElsewhere.id}</code></h2>
        <button type="button" class="close" aria-label=${gettext("Close")} @click=${close}>✕</button>
      </div>
      ${this.#detail(this.#openedElsewhere)}
    </section>`;
  }

  #list(): TemplateResult {
    if (this.#state === "failed" && this.#items.length === 0) return this.#failed();
    if (this.#state === "missing")
      return this.#empty(gettext("The queue {queue} does not exist yet. It is created by its first message.", { queue: this.queue }));
    if (this.#first) return skeleton();
    if (this.#items.length > 0) {
      return html`${this.#state === "failed" ? this.#failed() : nothing} ${this.#table()} ${this.#pager()}`;
    }
    if (this.#stopped) return this.#pager();
    if (this.#searchError) return html``;
    return isEmpty(this.#condition) ? this.#empty(gettext("{queue} is empty.", { queue: this.queue })) : this.#nothingMatches();
  }

  #failed(): TemplateResult {
    return html`<div class="notice" data-tone="bad" role="alert">
      <strong>${gettext("The messages could not be loaded.")}</strong> ${this.#error}
      <button type="button" @click=${() => this.#read()}>${gettext("Try again")}</button>
    </div>`;
  }

  #empty(text: string): TemplateResult {
    return html`<div class="empty">
      <p>${text}</p>
      <a class="button primary" href=${pageOf(`/queue/${this.queue}`, "publish")}>${gettext("Publish a message")}</a>
      <div class="empty-code">${publishSnippets(`/queue/${this.queue}`, server).map(snippetBlock)}</div>
    </div>`;
  }

  #nothingMatches(): TemplateResult {
    return html`<div class="empty">
      <p>${ngettext("No message matches the search. {count} message in total.", "No message matches the search. {count} messages in total.", this.#total)}</p>
      <button type="button" @click=${() => pageAddress.go({ q: "", after: "", message: "" })}>${gettext("Clear the search")}</button>
    </div>`;
  }

  #pager(): TemplateResult {
    const newest = pageAddress.get("order") === "newest";
    if (this.#stopped) {
      return html`<p class="notice" data-tone="quiet" role="status">
        ${gettext("The search stopped after {scanned} of about {total} messages.", { scanned: count(this.#scanned), total: count(this.#total) })}
        ${this.#items.length === 0 ? gettext("No matches so far.") : nothing}
        <button type="button" ?disabled=${this.#state === "loading"} @click=${() => this.#read(true)}>${gettext("Continue")}</button>
      </p>`;
    }
    return html`<p class="pager tools">
      ${pageAddress.get("after") ? html`<a href=${pageAddress.href({ after: "", message: "" })} @click=${this.#turn("")}>${newest ? gettext("◂ Newest") : gettext("◂ Oldest")}</a>` : nothing}
      ${
        this.#next !== null
          ? html`<a href=${pageAddress.href({ after: this.#next, message: "" })} @click=${this.#turn(this.#next)}>${newest ? gettext("Older ▸") : gettext("Newer ▸")}</a>`
          : nothing
      }
    </p>`;
  }

  /** Goes to another page without asking for this one again. */
  #turn(after: string) {
    return (event: MouseEvent) => {
      if (event.ctrlKey || event.metaKey || event.shiftKey) return;
      event.preventDefault();
      pageAddress.go({ after, message: "" });
      this.querySelector<HTMLElement>(".messages")?.scrollIntoView({ block: "nearest" });
    };
  }

  // ------------------------------------------------------------------ the table

  #table(): TemplateResult {
    const dead = this.#items.some((item) => originOf(item));
    const all = this.#items.every(({ id }) => this.#selected.has(id));
    const some = !all && this.#items.some(({ id }) => this.#selected.has(id));
    return html`<table class="messages" data-old=${this.#state === "failed"} @gone=${() => this.#reload()}>
      <caption class="visually-hidden">${gettext("Messages of {queue}", { queue: this.queue })}</caption>
      <thead>
        <tr>
          <th scope="col" class="col-mark">
            <input type="checkbox" aria-label=${gettext("Select all on this page")} .checked=${all} .indeterminate=${some} @change=${() => this.#selectAll(!all)} />
          </th>
          <th scope="col" class="num">#</th>
          <th scope="col">${gettext("time")}</th>
          <th scope="col" class="col-id">${gettext("id")}</th>
          <th scope="col" class="col-type">${gettext("type")}</th>
          <th scope="col" class="num">${gettext("size")}</th>
          <th scope="col" class="num col-attempt">${gettext("attempt")}</th>
          ${dead ? html`<th scope="col">${gettext("reason")}</th>` : nothing}
          <th scope="col" class="col-headers">${gettext("headers")}</th>
          <th scope="col" class="col-preview">${gettext("body")}</th>
        </tr>
      </thead>
      <tbody>
        ${repeat(
          this.#items,
          ({ id }) => id,
          (item) => this.#row(item, dead),
        )}
      </tbody>
    </table>`;
  }

  #row(item: Message, dead: boolean): TemplateResult {
    const opened = pageAddress.get("message") === item.id;
    const headers = Object.entries(item.headers).filter(([name]) => !DEAD_LETTER_HEADERS.test(name));
    const reason = reasonOf(item);
    return html`<tr class="message" data-opened=${opened} data-selected=${this.#selected.has(item.id)}>
        <td class="col-mark">
          <input type="checkbox" aria-label=${gettext("Select message #{position}", { position: item.position })} .checked=${this.#selected.has(item.id)} @change=${() => this.#toggle(item)} />
        </td>
        <th scope="row" class="num">
          <button type="button" class="opens" data-id=${item.id} aria-expanded=${opened} @click=${() => this.#open(opened ? "" : item.id)}>
            ${count(item.position)}
          </button>
        </th>
        <td><time datetime=${item.time} title=${`${fullTime(item.time)} · ${item.time}`}>${ago(item.time)}</time>
          ${item.state === "unsettled" ? html`<span class="tag">${gettext("unsettled")}</span>` : nothing}
          ${item.due ? html`<span class="tag" title=${item.due}>${gettext("delayed")}</span>` : nothing}</td>
        <td class="col-id" title=${item.id}>${shortened(item.id)}</td>
        <td class="col-type">${item.type ?? item.content_type ?? ""}</td>
        <td class="num">${bytes(item.size)}</td>
        <td class="num col-attempt">${item.attempt}</td>
        ${dead ? html`<td class="col-reason" title=${reason}>${reason}</td>` : nothing}
        <td class="col-headers">${headers.slice(0, SHOWN_HEADERS).map(([name, value]) => html`<span>${name}=${value}</span>`)}${
          headers.length > SHOWN_HEADERS ? html`<span>+${headers.length - SHOWN_HEADERS}</span>` : nothing
        }</td>
        <td class="col-preview">${preview(bodyOf(item)) || html`<span class="quiet">${gettext("(empty body)")}</span>`}</td>
      </tr>
      ${opened ? html`<tr class="message-details"><td colspan="10">${this.#detail(item)}</td></tr>` : nothing}`;
  }

  #detail(item: Message): TemplateResult {
    return html`<mom-message-detail .queue=${this.queue} .message=${item} .others=${this.#items}></mom-message-detail>`;
  }

  #open(id: string): void {
    pageAddress.go({ message: id }, { replace: true });
  }

  #toggle(item: Message): void {
    if (!this.#selected.delete(item.id)) this.#selected.set(item.id, item);
    this.requestUpdate();
  }

  #selectAll(on: boolean): void {
    for (const item of this.#items) {
      if (on) this.#selected.set(item.id, item);
      else this.#selected.delete(item.id);
    }
    this.requestUpdate();
  }

  // ------------------------------------------------------------------ acts on many

  #bulk(): TemplateResult | typeof nothing {
    if (this.#items.length === 0 && this.#selected.size === 0) return nothing;
    const chosen = this.#selected.size;
    const dead = this.#items.some((item) => originOf(item));
    const ops: [Op, string][] = [
      ...(dead ? ([["retry", gettext("Retry…")]] as [Op, string][]) : []),
      ["move", gettext("Move…")],
      ["copy", gettext("Copy…")],
      ["export", gettext("Export…")],
      ["delete", gettext("Delete…")],
    ];
    const clear = () => {
      this.#selected.clear();
      this.requestUpdate();
    };
    return html`<div class="bulk tools" role="group" aria-label=${gettext("Bulk actions")}>
      <span class="num">${
        chosen > 0
          ? ngettext("{count} selected:", "{count} selected:", chosen)
          : isEmpty(this.#condition)
            ? gettext("All messages:")
            : gettext("All that match:")
      }</span>
      ${ops.map(([op, word]) => this.#button(op, word))}
      ${
        chosen > 0
          ? html`<button type="button" class="link" @click=${clear}>
            ${isEmpty(this.#condition) ? gettext("or use all messages") : gettext("or use all that match")}
          </button>`
          : nothing
      }
    </div>`;
  }

  #button(op: Op, word: string): TemplateResult {
    const right = op === "copy" || op === "export" ? "read" : "manage";
    const missing = this.#rightsHere !== undefined && !this.#rightsHere.includes(right);
    const hint = missing ? gettext("Requires the right {right} on {queue}.", { right, queue: this.queue }) : this.#unfit(op);
    return html`<button type="button" class=${op === "retry" ? "primary" : ""} ?disabled=${hint !== ""} title=${hint || nothing} @click=${() => this.#do(op)}>
      ${word}
    </button>`;
  }

  /** Why an action is not possible for the search; "" if it is. */
  #unfit(op: Op): string {
    const { state } = this.#condition;
    if (this.#selected.size > 0) return "";
    if (state === "unsettled") return gettext("Unsettled messages are settled by their consumer.");
    return state === "delayed" && op !== "delete" && op !== "export" ? gettext("Delayed messages can only be deleted or exported.") : "";
  }

  #do(op: Op): void {
    const ids = [...this.#selected.keys()];
    if (ids.length > 0) void openBulkDialog(op, this.queue, { ids }, ids.length);
    else void openBulkDialog(op, this.queue, this.#condition);
  }

  // ------------------------------------------------------------------ keys

  get #focused(): Message | undefined {
    const id = (document.activeElement as HTMLElement | null)?.dataset.id ?? pageAddress.get("message");
    return this.#items.find((item) => item.id === id);
  }

  #retry(): void {
    const focused = this.#focused;
    if (this.#selected.size > 0) this.#do("retry");
    else if (focused && originOf(focused)) void retryOne(this.queue, focused);
  }

  #move(): void {
    if (this.#selected.size > 0) this.#do("move");
    else if (this.#focused) void openBulkDialog("move", this.queue, { ids: [this.#focused.id] }, 1);
  }
}

/** Show the end of an id: its beginning is the time, which is shown next to it. */
function shortened(id: string): string {
  return id.length > 14 ? `…${id.slice(-12)}` : id;
}

/** A name as the rest of a topic's: levels that are wildcards are spelled. */
function inTopic(name: string): string {
  const spelled: Record<string, string> = { "*": "%2A", ">": "%3E", "#": "%23" };
  return name
    .split(".")
    .map((level) => spelled[level] ?? level)
    .join(".");
}

function skeleton(): TemplateResult {
  return html`<div class="skeleton" role="status">
    <span class="visually-hidden">${gettext("Loading messages")}</span>
    ${Array.from({ length: 8 }, () => html`<div></div>`)}
  </div>`;
}

customElements.define("mom-message-browser", MessageBrowser);
