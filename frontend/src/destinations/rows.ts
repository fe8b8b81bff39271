/**
 * The rows of a list of destinations. A thousand of them change every second, so they are rendered by hand: each cell
 * remembers its text and updates its own text node only when that changes; rows out of sight are updated when they come
 * into view.
 */

import { pageOf } from "../pages.ts";
import { gettext } from "../gettext.ts";
import { NONE, duration } from "../view/format.ts";
import { HEIGHT, STEPS, WIDTH, outline } from "../view/sparkline.ts";
import { partsOf } from "../view/name.ts";
import { signIn } from "../view/sign.ts";
import { DESTINATION_STATE } from "../generated/signs/destination-state.ts";
import type { Column } from "./columns.ts";
import type { Kind } from "./address.ts";
import type { ChangedStats, DestinationStats } from "./stats.ts";
import { iconAddress } from "../view/icon.ts";

/** Seconds per step of a trend. */
const STEP_S = 10;
const SVG = "http://www.w3.org/2000/svg";

type Draw = (figures: DestinationStats, ageS: number) => void;

export class Row {
  readonly element = make("tr");
  readonly check = make("input");
  readonly link = make("a", "row named");
  gone = false;
  #draws: { cellType: Column["cellType"]; ages: boolean; draw: Draw }[];
  #cameAt = performance.now();
  /** Whether the row is (nearly) visible, and whether updates were skipped because it is not. */
  #seen = true;
  #behind = false;

  constructor(
    readonly kind: Kind,
    readonly figures: DestinationStats,
    columns: Column[],
  ) {
    const { name } = figures;
    this.check.type = "checkbox";
    this.check.ariaLabel = gettext("Select {name}", { name });
    const pick = make("td", "pick");
    pick.append(this.check);
    const heading = make("th");
    heading.scope = "row";
    this.link.href = pageOf(this.address);
    this.link.dataset.name = this.address;
    this.link.title = name;
    // As a label it is one word, although its parts are boxes of their own.
    this.link.ariaLabel = name;
    for (const [at, part] of partsOf(name).entries()) {
      const text = make("span", at === 0 ? "prefix" : "");
      for (const piece of part.split(/(?<=[./:_-])/)) text.append(piece, make("wbr"));
      this.link.append(text);
    }
    heading.append(this.link);
    this.element.append(pick, heading);
    this.#draws = columns.map((column) => {
      const cell = make("td", `col-${column.key}`);
      if (column.cellType === "text") cell.classList.add("num");
      if (column.onMobile) cell.dataset.label = column.label;
      this.element.append(cell);
      return { cellType: column.cellType, ages: column.key === "oldest", draw: CELLS[column.cellType](cell, column) };
    });
    const actions = make("td", "acts-of-row");
    const more = make("button", "plain");
    more.type = "button";
    more.dataset.menu = name;
    more.innerHTML = `<svg class="icon" aria-hidden="true"><use href="${iconAddress("ellipsis")}"></use></svg>`;
    more.ariaLabel = gettext("Actions for {name}", { name });
    actions.append(more);
    this.element.append(actions);
    this.#draw(() => true);
  }

  get address(): string {
    return `/${this.kind}/${this.figures.name}`;
  }

  /** Apply changed values. The trend is rendered by `step`. */
  update(change: Partial<DestinationStats>): void {
    Object.assign(this.figures, change);
    this.#cameAt = performance.now();
    if (this.kind === "queue" && this.figures.trend) this.figures.trend[this.figures.trend.length - 1] = this.figures.depth;
    this.#draw(({ cellType }) => cellType !== "trend");
  }

  /** Called when the row comes into view, where skipped updates are rendered, or leaves it. */
  see(seen: boolean): void {
    this.#seen = seen;
    if (seen && this.#behind) this.#draw(() => true);
  }

  /** Update the age of the oldest message. */
  age(): void {
    if (this.figures.depth > 0) this.#draw(({ ages }) => ages);
  }

  /** Begin the next step of the trend with the current value. */
  step(): void {
    const { trend } = this.figures;
    if (!trend) return;
    const level = this.kind === "queue" ? this.figures.depth : Math.round(this.figures.in_rate * STEP_S);
    if (trend.length === STEPS && trend.every((number) => number === level)) return;
    trend.push(level);
    if (trend.length > STEPS) trend.shift();
    this.#draw(({ cellType }) => cellType === "trend");
  }

  /** Whether the row is selected. */
  choose(chosen: boolean): void {
    this.check.checked = chosen;
    this.element.dataset.chosen = String(chosen);
  }

  /** The destination was deleted: the row stays, dimmed, until the list is reloaded. */
  leave(): void {
    this.gone = true;
    this.check.disabled = true;
    this.choose(false);
    this.element.dataset.gone = "";
  }

  #draw(which: (cell: { cellType: Column["cellType"]; ages: boolean }) => boolean): void {
    this.#behind = !this.#seen;
    if (this.#behind) return;
    const ageS = (performance.now() - this.#cameAt) / 1000;
    for (const cell of this.#draws) if (which(cell)) cell.draw(this.figures, ageS);
  }
}

const CELLS: Record<Column["cellType"], (cell: HTMLElement, column: Column) => Draw> = {
  text: (cell, { text }) => {
    const figure = make("span", "figure");
    cell.append(figure);
    const write = writer(figure);
    let shown = "";
    return (figures, ageS) => {
      const now = text(figures, ageS);
      if (now === shown) return;
      shown = now;
      write(now);
      figure.classList.toggle("zero", now === "0");
    };
  },
  state: (cell) => {
    const pill = make("span", "state");
    const drawWord = writer(pill);
    const picture = document.createElementNS(SVG, "svg");
    picture.setAttribute("class", "icon");
    picture.setAttribute("aria-hidden", "true");
    const use = document.createElementNS(SVG, "use");
    picture.append(use);
    pill.prepend(picture);
    cell.append(pill);
    let shown = "";
    return ({ state }) => {
      if (state === shown) return;
      shown = state;
      const look = signIn(DESTINATION_STATE, state);
      pill.dataset.tone = look.tone;
      use.setAttribute("href", iconAddress(look.icon));
      drawWord(` ${look.word}`);
    };
  },
  trend: (cell) => {
    const picture = document.createElementNS(SVG, "svg");
    picture.setAttribute("class", "spark");
    picture.setAttribute("viewBox", `0 0 ${WIDTH} ${HEIGHT}`);
    picture.setAttribute("preserveAspectRatio", "none");
    picture.setAttribute("aria-hidden", "true");
    const line = document.createElementNS(SVG, "path");
    picture.append(line);
    cell.append(picture);
    let shown = "";
    return ({ trend }) => {
      const path = outline(trend ?? []);
      if (path === shown) return;
      shown = path;
      line.setAttribute("d", path);
    };
  },
  limit: (cell) => {
    const words = make("span", "num");
    const write = writer(words);
    const meter = make("progress", "meter");
    meter.max = 100;
    meter.ariaLabel = gettext("of the limit used");
    cell.append(words, " ", meter);
    let shown: number | null | undefined;
    return ({ fill, full_in_s }) => {
      const percent = fill === null || fill === undefined ? null : Math.floor(fill * 100);
      if (percent !== shown) {
        shown = percent;
        write(percent === null ? NONE : `${percent} %`);
        meter.hidden = percent === null;
        meter.value = percent ?? 0;
        if (percent !== null && percent >= 80) meter.dataset.tone = percent >= 95 ? "bad" : "warn";
        else delete meter.dataset.tone;
      }
      const title = full_in_s === null || full_in_s === undefined ? "" : gettext("full in about {span}", { span: duration(full_in_s) });
      if (cell.title !== title) cell.title = title;
    };
  },
};

/** Return a function that writes text into an element when it changes. */
function writer(element: Element): (text: string) => void {
  const node = document.createTextNode("");
  element.append(node);
  return (text) => {
    if (node.data !== text) node.data = text;
  };
}

function make<Name extends keyof HTMLElementTagNameMap>(name: Name, className = ""): HTMLElementTagNameMap[Name] {
  const element = document.createElement(name);
  if (className) element.className = className;
  return element;
}

/** All rows of a page by address, in the order of the broker. */
export class Rows {
  readonly body = make("tbody");
  #rows = new Map<string, Row>();
  #byElement = new WeakMap<Element, Row>();
  #ticks = 0;
  readonly #sight = new IntersectionObserver(
    (entries) => {
      for (const { target, isIntersecting } of entries) this.#byElement.get(target)?.see(isIntersecting);
    },
    { rootMargin: "300px" },
  );

  get all(): Row[] {
    return [...this.#rows.values()];
  }

  of(address: string): Row | undefined {
    return this.#rows.get(address);
  }

  /** The row that has the focus, on its name or elsewhere. */
  get focused(): Row | undefined {
    return this.all.find(({ element }) => element.contains(document.activeElement));
  }

  /** Show other rows. The focus stays on its destination, if that still exists. */
  show(kind: Kind, items: DestinationStats[], columns: Column[]): void {
    const focused = this.focused?.address;
    const rows = items.map((figures) => new Row(kind, figures, columns));
    this.#rows = new Map(rows.map((row) => [row.address, row]));
    this.body.replaceChildren(...rows.map(({ element }) => element));
    this.#sight.disconnect();
    for (const row of rows) {
      this.#byElement.set(row.element, row);
      this.#sight.observe(row.element);
    }
    if (focused !== undefined) this.#rows.get(focused)?.link.focus({ preventScroll: true });
  }

  update(changes: ChangedStats): void {
    for (const [address, change] of changes) this.#rows.get(address)?.update(change);
  }

  /** Once a second: update ages, and begin the next step of the trend for one row in ten. */
  tick(): void {
    this.#ticks += 1;
    let index = 0;
    for (const row of this.#rows.values()) {
      row.age();
      if (index++ % STEP_S === this.#ticks % STEP_S) row.step();
    }
  }
}
