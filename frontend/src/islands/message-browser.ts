import { html, nothing, type TemplateResult } from "lit";
import { topicOf } from "../destinations/address.ts";
import { gettext, ngettext } from "../gettext.ts";
import type { Now } from "../live/destination.ts";
import { Follow } from "../live/source.ts";
import { loadModule } from "../load-module.ts";
import { openBulkDialog, type Op } from "../messages/actions.ts";
import { bulkBar } from "../messages/bulk-bar.ts";
import { LinkedMessage } from "../messages/linked-message.ts";
import { MessageSearch } from "../messages/message-search.ts";
import { originOf } from "../messages/path.ts";
import { rightsTo, type Job, type Message } from "../messages/requests.ts";
import { isEmpty } from "../messages/search.ts";
import { searchCounts, searchForm } from "../messages/search-form.ts";
import { retryOne } from "../messages/single-message.ts";
import { isOwn, table } from "../messages/table.ts";
import { pageAddress, session } from "../services.ts";
import { bindShortcuts } from "../shortcuts.ts";
import "../style/messages.css";
import { count } from "../view/format.ts";
import { Island } from "./island.ts";
import "./message-detail.ts";
import { iconView } from "../view/icon.ts";

/**
 * The messages of a queue: search, selection, details and actions. Browsing changes nothing: no delivery, no count,
 * no order. The address is the state: `q`, `order`, `after`, and `message`, the one that is opened.
 */
export class MessageBrowser extends Island {
  /** Without its kind: `orders`. */
  static override properties = { queue: {} };

  declare queue: string;

  readonly #search = new MessageSearch(this, () => void this.#followLink());
  readonly #results = this.#search.results;
  readonly #linked = new LinkedMessage();
  /** The ids of the selected messages, of all pages. */
  readonly #selected = new Set<string>();
  #rights: string[] | undefined;
  /** The message that the page was opened with, until its row has come into sight. */
  #arrivedAt = "";
  #unbind: (() => void) | undefined;
  #unsubscribe: (() => void) | undefined;
  readonly #jobEnded = (event: Event) => this.#afterJob((event as CustomEvent<Job>).detail);

  constructor() {
    super();
    new Follow(this, () => [pageAddress]);
  }

  override connectedCallback(): void {
    super.connectedCallback();
    if (this.#isTail) void loadModule(() => import("./message-tail.ts"));
    this.#arrivedAt = pageAddress.get("message");
    this.#unbind = bindShortcuts(
      { keys: "r", label: gettext("Retry the message, or the selection"), action: () => this.#retry() },
      { keys: "m", label: gettext("Move the message, or the selection"), action: () => this.#move() },
    );
    document.addEventListener("mom:job-ended", this.#jobEnded);
    let beginning = true;
    this.#unsubscribe = session.subscribe(topicOf("stats", this.queue), (body) => {
      // The first report is the current state.
      if (!beginning) this.#changed(JSON.parse(body) as Now);
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
    if (this.#search.follow()) void this.#readRights();
    else if (this.#results.state !== "loading") void this.#followLink();
  }

  protected override updated(): void {
    if (this.#arrivedAt === "") return;
    const row = this.querySelector('tr.message[data-opened="true"]');
    if (row === null) return;
    this.#arrivedAt = "";
    row.scrollIntoView({ block: "center" });
  }

  get #isTail(): boolean {
    return pageAddress.get("tail") === "on";
  }

  async #readRights(): Promise<void> {
    // The rights on a queue that does not exist are unknown, and not needed.
    this.#rights ??= await rightsTo(this.queue).catch(() => undefined);
    this.requestUpdate();
  }

  async #followLink(): Promise<void> {
    if (await this.#linked.follow(this.queue, this.#results.items)) this.requestUpdate();
  }

  #changed({ name, depth, delayed, unsettled }: Now): void {
    // A queue and a topic of one name share the address.
    if (name !== `/queue/${this.queue}`) return;
    if (this.#results.state === "missing") this.#search.reload();
    else if (this.#results.compare(depth + delayed + unsettled)) this.requestUpdate();
  }

  #afterJob(job: Job): void {
    const ours = [job.source, job.target].includes(`/queue/${this.queue}`) || job.target === "origin";
    if (!ours || job.op === "export") return;
    this.#selected.clear();
    this.#search.reload();
  }

  async #toggleTail(): Promise<void> {
    // New messages are in the list, too.
    if (this.#isTail) this.#search.reload();
    else await loadModule(() => import("./message-tail.ts"));
    pageAddress.go({ tail: this.#isTail ? "" : "on", message: "" }, { replace: true });
  }

  // ------------------------------------------------------------------ drawing

  protected override render() {
    const form = searchForm(this.#results.searchError, this.#isTail, () => void this.#toggleTail());
    if (this.#isTail) return html`${form} <mom-message-tail .address=${`/queue/${this.queue}`}></mom-message-tail>`;
    const counts = searchCounts(this.#results, () => this.#search.reload());
    const linked = this.#linked.render(this.queue, (message) => this.#detail(message));
    return html`${form} ${counts} ${linked} ${this.#list()} ${this.#bulk()}`;
  }

  #list(): TemplateResult {
    const { state, items, isFirst, stopped, searchError, condition } = this.#results;
    if (state === "failed" && items.length === 0) return this.#failed();
    if (state === "missing") return this.#empty();
    if (isFirst) return skeleton();
    if (items.length > 0) return html`${state === "failed" ? this.#failed() : nothing} ${this.#table()} ${this.#pager()}`;
    if (stopped) return this.#pager();
    if (searchError) return html``;
    return isEmpty(condition) ? this.#empty() : this.#nothingMatches();
  }

  #table(): TemplateResult {
    return table({
      queue: this.queue,
      broker: this.#results.broker,
      items: this.#results.items,
      selected: this.#selected,
      isOld: this.#results.state === "failed",
      select: (ids, chosen) => this.#select(ids, chosen),
      reload: () => this.#search.reload(),
      detail: (message) => this.#detail(message),
    });
  }

  #detail(item: Message): TemplateResult {
    const owner = isOwn(item, this.#results.broker) ? undefined : item.broker;
    return html`<mom-message-detail .queue=${this.queue} .message=${item} .others=${this.#results.items} .owner=${owner}></mom-message-detail>`;
  }

  #failed(): TemplateResult {
    return html`<div class="notice" data-tone="bad" role="alert">
      <strong>${gettext("The messages could not be loaded.")}</strong> ${this.#results.error}
      <button type="button" @click=${() => void this.#search.read()}>${gettext("Try again")}</button>
    </div>`;
  }

  #empty(): TemplateResult {
    void loadModule(() => import("./empty-queue.ts"));
    return html`<mom-empty-queue queue=${this.queue} @reload=${() => this.#search.reload()} @tail=${() => void this.#toggleTail()}></mom-empty-queue>`;
  }

  #nothingMatches(): TemplateResult {
    const { total } = this.#results;
    return html`<div class="empty">
      ${iconView("search")}
      <p>${ngettext("No message matches the search. {count} message in total.", "No message matches the search. {count} messages in total.", total)}</p>
      <button type="button" @click=${() => pageAddress.go({ q: "", after: "", message: "" })}>${gettext("Clear the search")}</button>
    </div>`;
  }

  #pager(): TemplateResult {
    const { state, items, next, total, scanned, stopped } = this.#results;
    if (stopped) {
      const seen = { scanned: count(scanned), total: count(total) };
      return html`<div class="notice tools" data-tone="quiet">
        <progress class="meter" max=${total} value=${scanned} aria-label=${gettext("Progress of the search")}></progress>
        <span>${state === "loading" ? gettext("Searched {scanned} of about {total} messages.", seen) : gettext("The search stopped after {scanned} of about {total} messages.", seen)}
          ${items.length === 0 ? gettext("No matches so far.") : nothing}</span>
        ${
          state === "loading"
            ? html`<button type="button" @click=${() => this.#search.halt()}>${gettext("Stop")}</button>`
            : html`<button type="button" @click=${() => this.#search.goOn()}>${gettext("Continue")}</button>`
        }
      </div>`;
    }
    const newest = pageAddress.get("order") === "newest";
    return html`<p class="pager tools">
      ${pageAddress.get("after") ? this.#page("", newest ? gettext("◂ Newest") : gettext("◂ Oldest")) : nothing}
      ${next !== null ? this.#page(next, newest ? gettext("Older ▸") : gettext("Newer ▸")) : nothing}
    </p>`;
  }

  /** A link to another page, which does not ask for this one again. */
  #page(after: string, text: string): TemplateResult {
    const go = (event: MouseEvent) => {
      if (event.ctrlKey || event.metaKey || event.shiftKey) return;
      event.preventDefault();
      pageAddress.go({ after, message: "" });
      this.querySelector<HTMLElement>(".messages")?.scrollIntoView({ block: "nearest" });
    };
    return html`<a href=${pageAddress.href({ after, message: "" })} @click=${go}>${text}</a>`;
  }

  // ------------------------------------------------------------------ selection and actions

  #select(ids: string[], chosen: boolean): void {
    for (const id of ids) {
      if (chosen) this.#selected.add(id);
      else this.#selected.delete(id);
    }
    this.requestUpdate();
  }

  #bulk(): TemplateResult | typeof nothing {
    const { items, condition } = this.#results;
    if (items.length === 0 && this.#selected.size === 0) return nothing;
    return bulkBar({
      queue: this.queue,
      chosen: this.#selected.size,
      condition,
      dead: items.some((item) => originOf(item) !== ""),
      rights: this.#rights,
      act: (op) => this.#do(op),
      clear: () => this.#select([...this.#selected], false),
    });
  }

  #do(op: Op): void {
    const ids = [...this.#selected];
    if (ids.length > 0) void openBulkDialog(op, this.queue, { ids }, ids.length);
    else void openBulkDialog(op, this.queue, this.#results.condition);
  }

  // ------------------------------------------------------------------ keys

  get #focused(): Message | undefined {
    const id = (document.activeElement as HTMLElement | null)?.dataset.id ?? pageAddress.get("message");
    return this.#results.items.find((item) => item.id === id && isOwn(item, this.#results.broker));
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

function skeleton(): TemplateResult {
  return html`<div class="skeleton" role="status">
    <span class="visually-hidden">${gettext("Loading messages")}</span>
    ${Array.from({ length: 8 }, () => html`<div></div>`)}
  </div>`;
}

customElements.define("mom-message-browser", MessageBrowser);
