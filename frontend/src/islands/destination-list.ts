import { html, nothing, type TemplateResult } from "lit";
import type { Kind } from "../destinations/address.ts";
import { create } from "../destinations/creation.ts";
import { LABELS, actionsOf, missingRight, perform, type Action } from "../destinations/actions.ts";
import { chosenColumns, columnsOf, membersOf, type Column } from "../destinations/columns.ts";
import { onCreatedOrDeleted, onStatsChanged, type DestinationStats, type Page } from "../destinations/stats.ts";
import { Rows, type Row } from "../destinations/rows.ts";
import { bindShortcuts } from "../shortcuts.ts";
import { Retry } from "../live/retry.ts";
import { errorText, read, type Query } from "../live/requests.ts";
import { pageOf } from "../pages.ts";
import type { Change } from "../page-address.ts";
import { gettext, ngettext } from "../gettext.ts";
import { pageAddress, nodeStatus, server } from "../services.ts";
import { count, fullTime } from "../view/format.ts";
import { publishSnippets } from "../view/snippets.ts";
import { STATE_SIGNS } from "../view/state.ts";
import "../style/destinations.css";
import { Island } from "./island.ts";
import { snippetBlock } from "./snippet-block.ts";

const ROWS = 100;
const CHOICES_OF_ROWS = [100, 500, 1_000];
/** The most that the broker gives at a time. */
const AT_ONCE = 500;
const TYPING_MS = 200;
const TICK_MS = 1_000;
/** The interval of checking whether the rows are still in order. */
const ORDER_TICKS = 3;

/**
 * All queues or topics, live. Filter, order and page are in the address and evaluated by the broker; rows keep their
 * place while their values change.
 */
export class DestinationList extends Island {
  static override properties = { kind: {}, admin: { type: Boolean }, welcome: {} };

  declare kind: Kind;
  /** Whether the current user may change settings. */
  declare admin: boolean;
  /** The address of the first steps; empty when there are none. */
  declare welcome: string;

  readonly #rows = new Rows();
  #page: Page | undefined;
  #columns: Column[] = [];
  /** The error of the last request, and the time of the rows that are shown. */
  #fault = "";
  #readAt = "";
  /** The number of destinations without the filter, if none matches. */
  #unfiltered: number | undefined;
  /** Counts readings: only the latest counts. */
  #readings = 0;
  #chosen = new Set<string>();
  /** Whether all matching destinations are selected, on all pages. */
  #all = false;
  #newcomers = 0;
  #outOfOrder = false;
  #progress: string | null = null;
  #menuOf: Row | undefined;
  #ticks = 0;
  #typing: ReturnType<typeof setTimeout> | undefined;
  #leave: (() => void)[] = [];
  readonly #retry = new Retry(this, () => void this.#read());

  override connectedCallback(): void {
    super.connectedCallback();
    // Rows are updated with the broker's report of each second, or by a timer without the right to subscribe.
    const ticker = setInterval(() => nodeStatus.polled && this.#tick(), TICK_MS);
    this.#leave = [
      this.#keys(),
      pageAddress.watch(() => void this.#read()),
      nodeStatus.watch(() => nodeStatus.polled || this.#tick()),
      onStatsChanged((moves) => this.#rows.move(moves)),
      onCreatedOrDeleted((event) => this.#came(event)),
      () => clearInterval(ticker),
      () => clearTimeout(this.#typing),
    ];
    this.#rows.body.addEventListener("click", this.#clicked);
    void this.#read();
  }

  override disconnectedCallback(): void {
    super.disconnectedCallback();
    this.#rows.body.removeEventListener("click", this.#clicked);
    for (const leave of this.#leave) leave();
  }

  // ------------------------------------------------------------------ reading

  get #filters(): Query {
    return { q: pageAddress.get("filter"), state: pageAddress.get("state"), consumed: pageAddress.get("consumed") };
  }

  get #isFiltered(): boolean {
    return Object.values(this.#filters).some(Boolean);
  }

  get #number(): number {
    const asked = Number(pageAddress.get("rows"));
    return CHOICES_OF_ROWS.includes(asked) ? asked : ROWS;
  }

  /** Load and show the page in the address. */
  async #read(): Promise<void> {
    const reading = ++this.#readings;
    this.#columns = chosenColumns(this.kind, pageAddress.get("columns"));
    this.requestUpdate();
    try {
      const fields = membersOf(this.#columns).join(",");
      const page = await this.#gather({ ...this.#filters, sort: pageAddress.get("sort"), fields, after: pageAddress.get("after") }, this.#number);
      if (reading !== this.#readings) return;
      this.#unfiltered = undefined;
      if (page.items.length === 0 && this.#isFiltered) {
        this.#unfiltered = (await read<Page>(this.#path, { limit: 1, fields: "name" })).approx_total;
      }
      if (reading !== this.#readings) return;
      this.#show(page);
    } catch (fault) {
      if (reading !== this.#readings) return;
      this.#fault = errorText(fault);
      this.#retry.after(fault);
    }
    this.requestUpdate();
  }

  #show(page: Page): void {
    this.#page = page;
    this.#fault = "";
    this.#retry.after();
    this.#readAt = new Date().toISOString();
    this.#newcomers = 0;
    this.#outOfOrder = false;
    this.#rows.show(this.kind, page.items, this.#columns);
    this.#chosen = new Set([...this.#chosen].filter((name) => this.#rows.of(this.#address(name))));
    this.#mark();
  }

  get #path(): string {
    return `${this.kind}s`;
  }

  #address(name: string): string {
    return `/${this.kind}/${name}`;
  }

  /** Up to `most` rows, however many requests that takes. */
  async #gather(query: Query, most: number): Promise<Page> {
    const items: DestinationStats[] = [];
    let { after } = query;
    for (;;) {
      const page = await read<Page>(this.#path, { ...query, after, limit: Math.min(AT_ONCE, most - items.length) });
      items.push(...page.items);
      if (page.next === null || items.length >= most) return { ...page, items };
      after = page.next;
    }
  }

  // ------------------------------------------------------------------ while it is shown

  #came({ destination, gone }: { destination: string; gone: boolean }): void {
    if (!destination.startsWith(`/${this.kind}/`)) return;
    const row = this.#rows.of(destination);
    if (gone && row) {
      row.leave();
      this.#chosen.delete(row.figures.name);
    } else if (!gone && !row) this.#newcomers += 1;
    else return;
    // An empty list shows its first row at once.
    if (this.#page?.items.length === 0) void this.#read();
    this.requestUpdate();
  }

  #tick(): void {
    const fresh = document.documentElement.dataset.freshness === "fresh";
    if (document.hidden || !fresh) return;
    this.#rows.tick();
    if (++this.#ticks % ORDER_TICKS || this.#outOfOrder) return;
    this.#outOfOrder = !this.#isInOrder();
    if (this.#outOfOrder) this.requestUpdate();
  }

  #isInOrder(): boolean {
    const sort = pageAddress.get("sort");
    const field = sort.replace("-", "");
    if (!field || field === "name" || field === "state") return true;
    const values = this.#rows.all.map(({ figures }) => Number(figures[field] ?? -1));
    const sign = sort.startsWith("-") ? -1 : 1;
    return values.every((value, index) => index === 0 || sign * (value - values[index - 1]!) >= 0);
  }

  // ------------------------------------------------------------------ keys, choosing, acts

  #keys(): () => void {
    const move = (step: number) => {
      const { all, focused } = this.#rows;
      const at = (focused === undefined ? -1 : all.indexOf(focused)) + step;
      all[Math.min(Math.max(at, 0), all.length - 1)]?.link.focus();
    };
    return bindShortcuts(
      { keys: "/", label: gettext("Filter"), action: () => this.#seek() },
      { keys: "j", label: gettext("Next row"), action: () => move(1) },
      { keys: "k", label: gettext("Previous row"), action: () => move(-1) },
      { keys: "x", label: gettext("Select the row"), action: () => this.#toggle(this.#rows.focused) },
      { keys: ".", label: gettext("Actions for the row"), action: () => this.#openMenu(this.#rows.focused) },
    );
  }

  #seek(): void {
    const field = this.querySelector<HTMLInputElement>("input[type=search]");
    field?.focus();
    field?.select();
  }

  readonly #clicked = (event: Event): void => {
    const target = event.target as HTMLElement;
    const element = target.closest("tr");
    const row = this.#rows.all.find((each) => each.element === element);
    if (target === row?.check) this.#toggle(row);
    else if (target.closest("[data-menu]")) this.#openMenu(row);
  };

  #toggle(row: Row | undefined): void {
    if (row === undefined || row.gone) return;
    const { name } = row.figures;
    if (this.#all) this.#chosen = new Set(this.#shownNames());
    this.#all = false;
    if (!this.#chosen.delete(name)) this.#chosen.add(name);
    this.#mark();
    this.requestUpdate();
  }

  #choose(names: Iterable<string>, all = false): void {
    this.#chosen = new Set(names);
    this.#all = all;
    this.#mark();
    this.requestUpdate();
  }

  #mark(): void {
    for (const row of this.#rows.all) if (!row.gone) row.choose(this.#all || this.#chosen.has(row.figures.name));
  }

  #shownNames(): string[] {
    return this.#rows.all.filter((row) => !row.gone).map(({ figures }) => figures.name);
  }

  #openMenu(row: Row | undefined): void {
    if (row === undefined || row.gone) return;
    this.#menuOf = row;
    this.requestUpdate();
    void this.updateComplete.then(() => {
      const menu = this.querySelector<HTMLElement>("#row-menu")!;
      const source = row.element.querySelector<HTMLElement>("[data-menu]")!;
      menu.showPopover({ source } as object);
      menu.querySelector<HTMLElement>("a, button:enabled")?.focus();
    });
  }

  /** Run an action for one row, or for the selection. */
  async #do(action: Action, row?: Row): Promise<void> {
    const names = row ? [row.figures.name] : [...this.#chosen];
    const all = this.#all && row === undefined;
    const query = { ...this.#filters, fields: membersOf([]).join(",") };
    await perform(action, {
      kind: this.kind,
      number: all ? (this.#page?.approx_total ?? 0) : names.length,
      name: names[0] ?? "",
      chosen: async () => {
        if (all) return (await this.#gather(query, AT_ONCE)).items;
        return names.flatMap((name) => this.#rows.of(this.#address(name))?.figures ?? []).map((figures) => ({ ...figures }));
      },
      progress: (text) => {
        this.#progress = text;
        this.requestUpdate();
      },
      done: () => void this.#read(),
    });
  }

  async #new(): Promise<void> {
    if ((await create(this.kind)) !== null) void this.#read();
  }

  // ------------------------------------------------------------------ drawing

  protected override render() {
    const page = this.#page;
    if (page === undefined) return this.#fault ? this.#failed() : skeleton(this.kind);
    if (page.items.length === 0 && !this.#isFiltered && !pageAddress.get("after")) return this.#nothingYet();
    return html`
      ${this.#toolbar(page)} ${this.#fault ? this.#failed() : nothing}
      ${page.items.length === 0 ? this.#nothingMatches() : this.#table()}
      ${this.#pager(page)} ${this.#bar(page)} ${this.#menu()}
    `;
  }

  /** Asks for something else, from its first page on. What is chosen and still shown then stays chosen. */
  #go(change: Change, options = {}): void {
    this.#all = false;
    pageAddress.go({ after: null, ...change }, options);
  }

  #toolbar(page: Page): TemplateResult {
    const type = (event: InputEvent) => {
      const { value } = event.target as HTMLInputElement;
      clearTimeout(this.#typing);
      this.#typing = setTimeout(() => this.#go({ filter: value }, { replace: true }), TYPING_MS);
    };
    const states = Object.entries(STATE_SIGNS).filter(([state]) => this.kind === "queue" || ["paused", "flowing", "idle"].includes(state));
    const state = pageAddress.get("state");
    const several = state.includes(",")
      ? [
          [
            state,
            {
              word: state
                .split(",")
                .map((each) => STATE_SIGNS[each]?.word ?? each)
                .join(", "),
            },
          ] as const,
        ]
      : [];
    return html`<div class="toolbar" role="search">
      <input
        type="search"
        aria-label=${gettext("Filter by name: words or a pattern with *")}
        placeholder=${gettext("filter: words or orders.*")}
        autocomplete="off"
        spellcheck="false"
        .value=${pageAddress.get("filter")}
        @input=${type}
      />
      <select aria-label=${gettext("State")} @change=${(event: Event) => this.#go({ state: (event.target as HTMLSelectElement).value })}>
        ${[["", { word: gettext("any state") }] as const, ...several, ...states].map(
          ([key, { word }]) => html`<option value=${key} ?selected=${key === state}>${word}</option>`,
        )}
      </select>
      <select
        aria-label=${gettext("Consumers")}
        @change=${(event: Event) => this.#go({ consumed: (event.target as HTMLSelectElement).value })}
      >
        ${[
          ["", gettext("with or without consumers")],
          ["true", gettext("with consumers")],
          ["false", gettext("without consumers")],
        ].map(([key, word]) => html`<option value=${key!} ?selected=${key === pageAddress.get("consumed")}>${word}</option>`)}
      </select>
      <span class="quiet" role="status">${this.#found(page)}</span>
      ${
        this.#newcomers > 0 || this.#outOfOrder
          ? html`<button type="button" class="link" @click=${() => void this.#read()}>
            ${this.#newcomers > 0 ? ngettext("{count} new one: show", "{count} new ones: show", this.#newcomers) : gettext("Re-sort")}
          </button>`
          : nothing
      }
      <span class="spring"></span>
      ${this.#columnChooser()}
      ${this.#newButton()}
    </div>`;
  }

  #found({ approx_total: total }: Page): string {
    if (this.#isFiltered) return ngettext("{count} matches", "{count} match", total);
    return this.kind === "queue" ? ngettext("{count} queue", "{count} queues", total) : ngettext("{count} topic", "{count} topics", total);
  }

  #newButton(): TemplateResult {
    const title = this.admin ? nothing : gettext("requires the right administer");
    return html`<button type="button" class="primary" ?disabled=${!this.admin} title=${title} @click=${() => void this.#new()}>
      ${this.kind === "queue" ? gettext("New queue") : gettext("New topic")}
    </button>`;
  }

  #columnChooser(): TemplateResult {
    const all = columnsOf(this.kind);
    const shown = new Set(this.#columns.map(({ key }) => key));
    const turn = (key: string) => {
      if (!shown.delete(key)) shown.add(key);
      const keys = all.map((each) => each.key).filter((each) => shown.has(each));
      const visibleByDefault = all.filter((each) => each.visibleByDefault).map((each) => each.key);
      pageAddress.go({ columns: keys.join() === visibleByDefault.join() ? null : keys.join(",") }, { replace: true });
    };
    return html`<button type="button" popovertarget="columns">${gettext("Columns")}</button>
      <div id="columns" class="menu-items choices-of-columns" popover>
        ${all.map(
          ({ key, label }) => html`<label class="check"><input type="checkbox" .checked=${shown.has(key)} @change=${() => turn(key)} />${label}</label>`,
        )}
        <label>${gettext("Rows per page")}
          <select @change=${(event: Event) => this.#go({ rows: (event.target as HTMLSelectElement).value })}>
            ${CHOICES_OF_ROWS.map((number) => html`<option value=${number === ROWS ? "" : number} ?selected=${number === this.#number}>${count(number)}</option>`)}
          </select>
        </label>
      </div>`;
  }

  #table(): TemplateResult {
    const chosenAll = this.#all || (this.#chosen.size > 0 && this.#chosen.size === this.#shownNames().length);
    return html`<table class="table destinations" data-old=${this.#fault ? "true" : nothing} data-columns=${this.#columns.length}>
      <caption class="visually-hidden">
        ${this.kind === "queue" ? gettext("Queues, updated every second") : gettext("Topics, updated every second")}
      </caption>
      <thead>
        <tr>
          <th class="pick" scope="col">
            <input
              type="checkbox"
              aria-label=${gettext("Select all on this page")}
              .checked=${chosenAll}
              @change=${() => this.#choose(chosenAll ? [] : this.#shownNames())}
            />
          </th>
          ${this.#heading({ key: "name", label: gettext("name"), field: "name", sorts: true, cellType: "state" })}
          ${this.#columns.map((column) => this.#heading(column))}
          <th class="col-acts" scope="col"><span class="visually-hidden">${gettext("Actions")}</span></th>
        </tr>
      </thead>
      ${this.#rows.body}
    </table>`;
  }

  #heading({ key, label, hint, field, sorts, cellType }: Pick<Column, "key" | "label" | "hint" | "field" | "sorts" | "cellType">): TemplateResult {
    const numeric = cellType === "text" || cellType === "limit";
    const style = `col-${key} ${cellType === "text" ? "num" : ""}`;
    if (!sorts) return html`<th scope="col" class=${style} title=${hint ?? nothing}>${label}</th>`;
    const sort = pageAddress.get("sort") || "name";
    const direction = sort === field ? "ascending" : sort === `-${field}` ? "descending" : undefined;
    // Numbers are sorted in descending order first.
    const next = numeric === (direction === "descending") ? field : `-${field}`;
    const target = direction === undefined && !numeric ? field : next;
    return html`<th scope="col" class=${style} title=${hint ?? nothing} aria-sort=${direction ?? nothing}>
      <button type="button" @click=${() => this.#go({ sort: target === "name" ? null : target })}>${label}</button>
    </th>`;
  }

  #pager(page: Page): TemplateResult | typeof nothing {
    const after = pageAddress.get("after");
    if (!after && page.next === null) return nothing;
    return html`<nav class="pager" aria-label=${gettext("Pages")}>
      <span>${gettext("Showing {shown} of {all}.", { shown: count(page.items.length), all: count(page.approx_total) })}</span>
      <span class="spring"></span>
      <button type="button" ?disabled=${!after} @click=${() => this.#go({})}>${gettext("First page")}</button>
      <button type="button" ?disabled=${page.next === null} @click=${() => this.#go({ after: page.next })}>${gettext("Next page")}</button>
    </nav>`;
  }

  /** The actions for the selection. */
  #bar(page: Page): TemplateResult | typeof nothing {
    const number = this.#all ? page.approx_total : this.#chosen.size;
    if (number === 0) return this.#progress ? html`<div class="bulk" role="status">${this.#progress}</div>` : nothing;
    const more = !this.#all && page.approx_total > number;
    return html`<div class="bulk" role="group" aria-label=${gettext("Selection")}>
      <b role="status">${ngettext("{count} selected", "{count} selected", number)}</b>
      ${more ? html`<span class="quiet">${gettext("of {all} matching", { all: count(page.approx_total) })}</span>` : nothing}
      ${actionsOf(this.kind).map((action) => this.#button(action))}
      ${
        more
          ? html`<button type="button" class="link" @click=${() => this.#choose([], true)}>${gettext("Select all {all}", { all: count(page.approx_total) })}</button>`
          : nothing
      }
      <button type="button" class="link" @click=${() => this.#choose([])}>${gettext("Clear selection")}</button>
      ${this.#progress ? html`<span role="status">${this.#progress}</span>` : nothing}
    </div>`;
  }

  #button(action: Action, row?: Row): TemplateResult {
    const missing = missingRight(action, this.admin);
    const tone = action === "purge" || action === "delete" ? "bad" : nothing;
    const act = () => {
      this.querySelector<HTMLElement>("#row-menu:popover-open")?.hidePopover();
      void this.#do(action, row);
    };
    return html`<button type="button" data-tone=${tone} ?disabled=${missing !== ""} title=${missing || nothing} @click=${act}>${LABELS[action]}</button>`;
  }

  #menu(): TemplateResult {
    const row = this.#menuOf;
    const paused = row?.figures.paused !== "none";
    return html`<div id="row-menu" class="menu-items" popover>
      ${
        row === undefined
          ? nothing
          : html`<a href=${pageOf(row.address)}>${gettext("Open")}</a>
            <a href=${pageOf(row.address, "publish")}>${gettext("Publish")}</a>
            <hr />
            ${actionsOf(this.kind)
              .filter((action) => action !== (paused ? "pause" : "resume"))
              .map((action) => this.#button(action, row))}`
      }
    </div>`;
  }

  // ------------------------------------------------------------------ instead of rows

  #nothingYet(): TemplateResult {
    const queue = this.kind === "queue";
    const address = `/${this.kind}/hello`;
    return html`${this.#fault ? this.#failed() : nothing}
      <div class="empty">
        <h2>${queue ? gettext("No queues yet") : gettext("No topics yet")}</h2>
        <p>
          ${
            queue
              ? gettext("A queue keeps messages until a consumer acknowledges them. It is created by its first message.")
              : gettext("A topic delivers each message to all its subscribers. It is created by its first message.")
          }
        </p>
        <div class="tools">
          <a class="button primary" href=${pageOf(address, "publish")}>${gettext("Publish a message")}</a>
          ${this.#newButton()}
          ${this.welcome ? html`<a href=${this.welcome}>${gettext("First steps")}</a>` : nothing}
        </div>
        ${publishSnippets(address, server).map(snippetBlock)}
      </div>`;
  }

  #nothingMatches(): TemplateResult {
    const all = this.#unfiltered ?? 0;
    const without =
      this.kind === "queue"
        ? ngettext("No queue matches the filter. {count} queue in total.", "No queue matches the filter. {count} queues in total.", all)
        : ngettext("No topic matches the filter. {count} topic in total.", "No topic matches the filter. {count} topics in total.", all);
    return html`<div class="empty">
      <p>${without}</p>
      <button type="button" @click=${() => this.#go({ filter: null, state: null, consumed: null })}>${gettext("Clear filter")}</button>
    </div>`;
  }

  #failed(): TemplateResult {
    return html`<p class="notice" data-tone=${this.#page ? "warn" : "bad"} role="status">
      ${this.#fault} ${this.#page ? gettext("Status at {time}.", { time: fullTime(this.#readAt) }) : nothing}
      <button type="button" class="link" @click=${() => void this.#read()}>${gettext("Try again")}</button>
    </p>`;
  }
}

function skeleton(kind: Kind): TemplateResult {
  return html`<div class="skeleton" role="status">
    <span class="visually-hidden">${kind === "queue" ? gettext("Loading queues") : gettext("Loading topics")}</span>
    ${Array.from({ length: 8 }, () => html`<div></div>`)}
  </div>`;
}

customElements.define("mom-destination-list", DestinationList);
