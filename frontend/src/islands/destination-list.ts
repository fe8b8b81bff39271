import { html, nothing, type TemplateResult } from "lit";
import { repeat } from "lit/directives/repeat.js";
import type { Destination } from "../live/rest.ts";
import { bindKeys } from "../keys.ts";
import { Follow } from "../live/source.ts";
import { say } from "../say.ts";
import type { Statistics } from "../live/statistics.ts";
import { conditionOf } from "../view/condition.ts";
import { NONE, count, duration, plural, rate } from "../view/format.ts";
import { chosen, type Choice, type SortKey } from "../view/listing.ts";
import { pageOf } from "../pages.ts";
import { nameOf } from "../view/name.ts";
import { sparkline } from "../view/sparkline.ts";
import { Island } from "./island.ts";
import { place, statistics } from "../services.ts";

const ROWS_A_PAGE = 200;

interface Column {
  key: string;
  label: string;
  sort?: SortKey;
  numeric?: boolean;
  cell: (destination: Destination, statistics: Statistics) => unknown;
}

const COLUMNS: Column[] = [
  { key: "state", label: "state", cell: (destination, statistics) => pill(destination, statistics) },
  { key: "depth", label: "depth", sort: "depth", numeric: true, cell: ({ depth }) => count(depth) },
  { key: "in", label: "in/s", sort: "in", numeric: true, cell: ({ in_rate }) => rate(in_rate) },
  { key: "out", label: "out/s", sort: "out", numeric: true, cell: ({ out_rate }) => rate(out_rate) },
  { key: "trend", label: "depth, 5 min", cell: ({ name }, statistics) => sparkline(statistics.trend(name)) },
  { key: "oldest", label: "oldest", sort: "oldest", numeric: true, cell: (row) => (row.depth ? duration(row.oldest_s) : NONE) },
  { key: "unsettled", label: "unsettled", sort: "unsettled", numeric: true, cell: (row) => count(row.unsettled) },
  { key: "consumers", label: "consumers", sort: "consumers", numeric: true, cell: (row) => count(row.consumers) },
];

function pill(destination: Destination, statistics: Statistics): TemplateResult {
  const { word, tone, shape } = conditionOf(destination, statistics.isGrowing(destination.name));
  return html`<span class="state" data-tone=${tone}><span aria-hidden="true">${shape}</span> ${word}</span>`;
}

function choice(): Choice {
  return { filter: place.get("filter"), kind: place.get("kind"), sort: place.get("sort") || "name" };
}

/** All destinations, live. Rows keep their place while numbers change; order changes only when asked for. */
export class DestinationList extends Island {
  #order: string[] = [];
  #orderedFor = "";
  #shown = ROWS_A_PAGE;

  constructor() {
    super();
    new Follow(this, () => [statistics, place]);
  }

  #unbind: (() => void) | undefined;

  override connectedCallback(): void {
    super.connectedCallback();
    this.#unbind = bindKeys(
      { keys: "/", says: say("Filter"), deed: () => this.focusFilter() },
      { keys: "j", says: say("Next row"), deed: () => this.moveFocus(1) },
      { keys: "k", says: say("Previous row"), deed: () => this.moveFocus(-1) },
    );
  }

  override disconnectedCallback(): void {
    super.disconnectedCallback();
    this.#unbind?.();
  }

  /** Moves the focus `step` rows down (or up), from the panel's row or the first one. */
  moveFocus(step: 1 | -1): void {
    const links = [...this.querySelectorAll<HTMLAnchorElement>("tbody th a")];
    const focused = links.indexOf(document.activeElement as HTMLAnchorElement);
    const current = focused >= 0 ? focused : links.findIndex((link) => link.ariaCurrent === "true");
    links[Math.min(Math.max(current + step, 0), links.length - 1)]?.focus();
  }

  focusFilter(): void {
    this.querySelector<HTMLInputElement>("#filter")?.select();
    this.querySelector<HTMLInputElement>("#filter")?.focus();
  }

  focusRow(name: string): void {
    this.querySelector<HTMLAnchorElement>(`a[data-name="${CSS.escape(name)}"]`)?.focus();
  }

  protected override render() {
    const all = statistics.destinations;
    if (statistics.freshness === "none") return skeleton();
    if (all.size === 0) return html`<div class="empty"><p>There are none yet.</p></div>`;
    const matching = chosen(all.values(), choice());
    const rows = this.#inPlace(matching);
    return html`
      ${this.#tools(matching)}
      ${rows.length === 0 ? this.#nothingMatches(all.size) : this.#table(rows.slice(0, this.#shown))}
      ${rows.length > this.#shown ? this.#more(rows.length) : nothing}
    `;
  }

  /** Rows in the order they had; newcomers come last until the list is sorted again. */
  #inPlace(matching: Destination[]): Destination[] {
    const { filter, kind, sort } = choice();
    const asked = JSON.stringify([filter, kind, sort]);
    const byName = new Map(matching.map((destination) => [destination.name, destination]));
    if (asked !== this.#orderedFor) {
      this.#orderedFor = asked;
      this.#order = matching.map((destination) => destination.name);
    } else {
      const known = new Set(this.#order);
      const newcomers = matching.filter(({ name }) => !known.has(name)).map(({ name }) => name);
      this.#order = [...this.#order.filter((name) => byName.has(name)), ...newcomers];
    }
    return this.#order.map((name) => byName.get(name)!);
  }

  #tools(matching: Destination[]): TemplateResult {
    const asked = choice();
    const sorted = matching.every(({ name }, index) => this.#order[index] === name);
    const all = statistics.destinations.size;
    return html`<div class="tools">
      <input
        id="filter"
        type="search"
        aria-label="Filter by name: words or a pattern with *"
        placeholder="filter: name or orders.*"
        autocomplete="off"
        spellcheck="false"
        .value=${asked.filter}
        @input=${(event: InputEvent) => this.#filter((event.target as HTMLInputElement).value)}
      />
      <div class="segments" role="group" aria-label="Kind">
        ${(["", "queue", "topic"] as const).map(
          (kind) => html`<button
            type="button"
            aria-pressed=${asked.kind === kind}
            @click=${() => place.go({ kind })}
          >${kind ? `${kind}s` : "all"}</button>`,
        )}
      </div>
      <span class="quiet" role="status">
        ${matching.length === all ? plural(all, "destination") : `${count(matching.length)} of ${plural(all, "destination")}`}
      </span>
      ${sorted ? nothing : html`<button type="button" class="link" @click=${() => this.#sortAgain()}>Re-sort</button>`}
    </div>`;
  }

  #filter(filter: string): void {
    this.#shown = ROWS_A_PAGE;
    place.go({ filter }, { replace: true });
  }

  #sortAgain(): void {
    this.#orderedFor = "";
    this.requestUpdate();
  }

  #table(rows: Destination[]): TemplateResult {
    return html`<table class="list">
      <caption class="visually-hidden">Destinations, updated every second</caption>
      <thead>
        <tr>
          ${this.#heading({ key: "name", label: "name", sort: "name" })}
          ${COLUMNS.map((column) => this.#heading(column))}
        </tr>
      </thead>
      <tbody>
        ${repeat(rows, ({ name }) => name, (row) => this.#row(row))}
      </tbody>
    </table>`;
  }

  #heading({ key, label, sort, numeric }: Omit<Column, "cell">): TemplateResult {
    const current = choice().sort;
    if (sort === undefined) return html`<th scope="col" class="col-${key}">${label}</th>`;
    const direction = current === sort ? "ascending" : current === `-${sort}` ? "descending" : undefined;
    // Numbers are looked for at their largest first.
    const next = numeric ? (direction === "descending" ? sort : `-${sort}`) : direction === "ascending" ? `-${sort}` : sort;
    const mark = direction ? html`<span class="mark" aria-hidden="true">${direction === "ascending" ? "↑" : "↓"}</span>` : nothing;
    return html`<th scope="col" class="col-${key}" aria-sort=${direction ?? nothing}>
      <button type="button" @click=${() => place.go({ sort: next })}>${numeric ? [mark, label] : [label, mark]}</button>
    </th>`;
  }

  #row(row: Destination): TemplateResult {
    const href = pageOf(row.name);
    return html`<tr>
      <th scope="row">
        <a data-name=${row.name} href=${href}>${nameOf(row.name)}</a>
      </th>
      ${COLUMNS.map(
        ({ key, numeric, label, cell }) =>
          html`<td class="col-${key} ${numeric ? "num" : ""}" data-label=${label}>${cell(row, statistics)}</td>`,
      )}
    </tr>`;
  }

  #nothingMatches(all: number): TemplateResult {
    return html`<div class="empty">
      <p>No destination matches. There are ${count(all)} without the filter.</p>
      <button type="button" @click=${() => place.go({ filter: "", kind: "" })}>Clear filter</button>
    </div>`;
  }

  #more(found: number): TemplateResult {
    const show = () => {
      this.#shown += ROWS_A_PAGE;
      this.requestUpdate();
    };
    return html`<p class="quiet more">
      Showing ${count(this.#shown)} of ${count(found)}.
      <button type="button" class="link" @click=${show}>Show more</button>
    </p>`;
  }
}

function skeleton(): TemplateResult {
  return html`<div class="skeleton" role="status">
    <span class="visually-hidden">Loading destinations</span>
    ${Array.from({ length: 6 }, () => html`<div></div>`)}
  </div>`;
}

customElements.define("mom-destination-list", DestinationList);
