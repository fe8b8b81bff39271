import { html, nothing, type TemplateResult } from "lit";
import { actionBar, actionButton, rowMenu } from "../destinations/action-bar.ts";
import { perform, type Action } from "../destinations/actions.ts";
import type { Kind } from "../destinations/address.ts";
import { create } from "../destinations/creation.ts";
import { nothingMatches, nothingYet, skeleton } from "../destinations/empty-list.ts";
import { Listing } from "../destinations/listing.ts";
import { isInOrder } from "../destinations/order.ts";
import { Rows, type Row } from "../destinations/rows.ts";
import { Selection } from "../destinations/selection.ts";
import { onCreatedOrDeleted, onStatsChanged, type Page } from "../destinations/stats.ts";
import { table } from "../destinations/table.ts";
import { toolbar } from "../destinations/toolbar.ts";
import { MAX_PAGE } from "../generated/tables.ts";
import { gettext, ngettext } from "../gettext.ts";
import type { Change } from "../page-address.ts";
import { nodeStatus, pageAddress } from "../services.ts";
import { bindShortcuts } from "../shortcuts.ts";
import "../style/destinations.css";
import { count, fullTime } from "../view/format.ts";
import { Island } from "./island.ts";
import { hintOf } from "../view/refusal.ts";

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
  readonly #listing = new Listing(this, (page) => this.#show(page));
  readonly #selection = new Selection();
  #newcomers = 0;
  #outOfOrder = false;
  #progress: string | null = null;
  #menuOf: Row | undefined;
  #ticks = 0;
  #typing: ReturnType<typeof setTimeout> | undefined;
  #leave: (() => void)[] = [];

  override connectedCallback(): void {
    super.connectedCallback();
    // Rows are updated with the broker's report of each second, or by a timer without the right to subscribe.
    const ticker = setInterval(() => nodeStatus.polled && this.#tick(), TICK_MS);
    this.#leave = [
      this.#keys(),
      pageAddress.watch(() => this.#read()),
      nodeStatus.watch(() => nodeStatus.polled || this.#tick()),
      onStatsChanged((changes) => this.#rows.update(changes)),
      onCreatedOrDeleted((event) => this.#came(event)),
      () => clearInterval(ticker),
      () => clearTimeout(this.#typing),
    ];
    this.#rows.body.addEventListener("click", this.#clicked);
    this.#read();
  }

  override disconnectedCallback(): void {
    super.disconnectedCallback();
    this.#rows.body.removeEventListener("click", this.#clicked);
    for (const leave of this.#leave) leave();
  }

  #read(): void {
    void this.#listing.read();
  }

  #show(page: Page): void {
    this.#newcomers = 0;
    this.#outOfOrder = false;
    this.#rows.show(this.kind, page.items, this.#listing.columns);
    this.#selection.keep((name) => this.#rows.of(this.#address(name)) !== undefined);
    this.#mark();
  }

  #address(name: string): string {
    return `/${this.kind}/${name}`;
  }

  // ------------------------------------------------------------------ while it is shown

  #came({ destination, gone }: { destination: string; gone: boolean }): void {
    if (!destination.startsWith(`/${this.kind}/`)) return;
    const row = this.#rows.of(destination);
    if (gone && row) {
      row.leave();
      this.#selection.keep((name) => name !== row.figures.name);
    } else if (!gone && !row) this.#newcomers += 1;
    else return;
    // An empty list shows its first row at once.
    if (this.#listing.page?.items.length === 0) this.#read();
    this.requestUpdate();
  }

  #tick(): void {
    const fresh = document.documentElement.dataset.freshness === "fresh";
    if (document.hidden || !fresh) return;
    this.#rows.tick();
    if (++this.#ticks % ORDER_TICKS || this.#outOfOrder) return;
    const figures = this.#rows.all.map((row) => row.figures);
    this.#outOfOrder = !isInOrder(figures, pageAddress.get("sort"));
    if (this.#outOfOrder) this.requestUpdate();
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
    this.#selection.toggle(row.figures.name, this.#shownNames());
    this.#mark();
    this.requestUpdate();
  }

  #choose(names: Iterable<string>, all = false): void {
    this.#selection.choose(names, all);
    this.#mark();
    this.requestUpdate();
  }

  #mark(): void {
    for (const row of this.#rows.all) if (!row.gone) row.choose(this.#selection.has(row.figures.name));
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
    const names = row ? [row.figures.name] : this.#selection.names;
    const all = this.#selection.all && row === undefined;
    await perform(action, {
      kind: this.kind,
      number: all ? (this.#listing.page?.approx_total ?? 0) : names.length,
      name: names[0] ?? "",
      chosen: async () => {
        if (all) return (await this.#listing.gather({}, [], MAX_PAGE)).items;
        return names.flatMap((name) => this.#rows.of(this.#address(name))?.figures ?? []).map((figures) => ({ ...figures }));
      },
      progress: (text) => {
        this.#progress = text;
        this.requestUpdate();
      },
      done: () => this.#read(),
    });
  }

  async #new(): Promise<void> {
    if ((await create(this.kind)) !== null) this.#read();
  }

  /** Asks for something else, from its first page on. What is chosen and still shown then stays chosen. */
  #go(change: Change, options = {}): void {
    this.#selection.all = false;
    pageAddress.go({ after: null, ...change }, options);
  }

  // ------------------------------------------------------------------ drawing

  protected override render() {
    const { page, fault, isFiltered, unfiltered = 0 } = this.#listing;
    if (page === undefined) return fault ? this.#failed() : skeleton(this.kind);
    const failed = fault ? this.#failed() : nothing;
    if (page.items.length === 0 && !isFiltered && !pageAddress.get("after")) {
      return html`${failed} ${nothingYet(this.kind, this.welcome, this.#newButton())}`;
    }
    const clear = () => this.#go({ filter: null, state: null, consumed: null });
    return html`
      ${this.#toolbar(page)} ${failed} ${page.items.length === 0 ? nothingMatches(this.kind, unfiltered, clear) : this.#table()}
      ${this.#pager(page)} ${this.#bar(page)} ${rowMenu(this.#menuOf, (action) => this.#button(action, this.#menuOf))}
    `;
  }

  #toolbar(page: Page): TemplateResult {
    const type = (text: string) => {
      clearTimeout(this.#typing);
      this.#typing = setTimeout(() => this.#go({ filter: text }, { replace: true }), TYPING_MS);
    };
    const offer =
      this.#newcomers > 0 || this.#outOfOrder
        ? html`<button type="button" class="link" @click=${() => this.#read()}>
            ${this.#newcomers > 0 ? ngettext("{count} new one: show", "{count} new ones: show", this.#newcomers) : gettext("Re-sort")}
          </button>`
        : nothing;
    const { kind } = this;
    return toolbar({ kind, listing: this.#listing, total: page.approx_total, type, go: (change) => this.#go(change), offer, create: this.#newButton() });
  }

  #newButton(): TemplateResult {
    const title = hintOf(this.admin ? undefined : gettext("requires the right administer"));
    return html`<button type="button" class="primary" ?disabled=${!this.admin} title=${title} @click=${() => void this.#new()}>
      ${this.kind === "queue" ? gettext("New queue") : gettext("New topic")}
    </button>`;
  }

  #table(): TemplateResult {
    const names = this.#shownNames();
    return table({
      kind: this.kind,
      columns: this.#listing.columns,
      body: this.#rows.body,
      isOld: this.#listing.fault !== "",
      isAllChosen: this.#selection.covers(names),
      chooseAll: (chosen) => this.#choose(chosen ? names : []),
      go: (change) => this.#go(change),
    });
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

  #bar(page: Page): TemplateResult | typeof nothing {
    const { total, all } = { total: page.approx_total, all: this.#selection.all };
    const button = (action: Action) => this.#button(action);
    const choose = (everything: boolean) => this.#choose([], everything);
    return actionBar({ kind: this.kind, number: this.#selection.count(total), total, all, progress: this.#progress, button, choose });
  }

  #button(action: Action, row?: Row): TemplateResult {
    return actionButton(action, this.admin, () => {
      this.querySelector<HTMLElement>("#row-menu:popover-open")?.hidePopover();
      void this.#do(action, row);
    });
  }

  #failed(): TemplateResult {
    const { page, fault, readAt } = this.#listing;
    return html`<p class="notice" data-tone=${page ? "warn" : "bad"} role="status">
      ${fault} ${page ? gettext("Status at {time}.", { time: fullTime(readAt) }) : nothing}
      <button type="button" class="link" @click=${() => this.#read()}>${gettext("Try again")}</button>
    </p>`;
  }
}

customElements.define("mom-destination-list", DestinationList);
