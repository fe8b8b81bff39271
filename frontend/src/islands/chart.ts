import { html, nothing, type PropertyValues, type TemplateResult } from "lit";
import { ref, createRef } from "lit/directives/ref.js";
import uPlot from "uplot";
import "../style/chart.css";
import { moments, steps, type Columns } from "../live/columns.ts";
import { gettext, ngettext } from "../gettext.ts";
import { NONE, bytes, count, duration, perHour, rate } from "../view/format.ts";
import { zone } from "../view/zone.ts";
import { Island } from "./island.ts";

/** One line of a chart. */
export interface Line {
  /** The column that it draws. */
  key: string;
  label: string;
  tone: "accent" | "good" | "warn" | "bad" | "quiet";
  /** `steps` for what changes at once, such as a number of consumers. */
  form?: "line" | "area" | "steps";
  /** Dashed, so that lines can be distinguished without colours. */
  dashed?: boolean;
}

/** Something that happened: a vertical line, and an entry in the list below the chart. */
export interface Mark {
  /** Seconds since 1970. */
  time_s: number;
  label: string;
  href?: string;
}

/** The unit. Values of `rate` and `hourly` are messages per step, and are shown as messages per second, or per hour. */
export type Unit = "count" | "rate" | "hourly" | "seconds" | "bytes";

const WRITTEN: Record<Unit, (value: number) => string> = {
  count,
  rate: (value) => gettext("{rate}/s", { rate: rate(value) }),
  hourly: (value) => gettext("{rate}/h", { rate: perHour(value) }),
  seconds: (value) => (value > 0 && value < 1 ? `${count(Math.max(1, value * 1000))} ms` : value === 0 ? "0 s" : duration(value)),
  bytes,
};
/** Steps of an axis: whole numbers, and tenths where labels have them. Finer steps would give several ticks one label. */
const WHOLE = [1, 2, 5].flatMap((digit) => Array.from({ length: 10 }, (_, zeros) => digit * 10 ** zeros)).sort((a, b) => a - b);
const TENTHS = [0.1, 0.2, 0.5, ...WHOLE];
const STEPS: Partial<Record<Unit, number[]>> = {
  count: WHOLE,
  rate: TENTHS,
  seconds: [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 60, 120, 300, 600, 1200, 3600, 7200, 21_600, 86_400, 604_800],
};
/** The lowest top of an axis, so that it has more than one label. */
const LOWEST_TOP: Partial<Record<Unit, number>> = { rate: 0.5 };
const HEIGHT = 180;
const SHOWN_STEPS = 100;
const SHOWN_MARKS = 20;
const LONG_S = 12 * 3600;
/** A chart of more than this has days on its axis. */
const DAYS_S = 36 * 3600;
const HOUR_S = 3600;
const CLOCK = { hour: "2-digit", minute: "2-digit", hourCycle: "h23" } as const;
const SECONDS = { second: "2-digit" } as const;
const DAY = { day: "numeric", month: "short" } as const;
/** The seconds for which values of these units are shown. */
const PER_S: Partial<Record<Unit, number>> = { rate: 1, hourly: HOUR_S };

/**
 * A chart over time, and the same values as a table. Attributes: `heading`, `unit`, `sync` (charts with the same name
 * have a common cursor), `height` in pixels, `empty` for the text without values, and `unlisted` if another chart of the
 * page lists the marks. Properties: `lines`, `columns` (assign a new object to redraw) and `marks`. Without columns it
 * shows that it is loading.
 */
export class Chart extends Island {
  static override properties = {
    heading: {},
    unit: {},
    sync: {},
    height: { type: Number },
    empty: {},
    unlisted: { type: Boolean },
    lines: { attribute: false },
    columns: { attribute: false },
    marks: { attribute: false },
  };

  declare heading: string;
  declare unit: Unit;
  declare sync: string | undefined;
  declare height: number;
  declare empty: string | undefined;
  declare unlisted: boolean;
  declare lines: Line[];
  declare columns: Columns | undefined;
  declare marks: Mark[];

  readonly #place = createRef<HTMLElement>();
  #plot: uPlot | undefined;
  #plotted = "";
  /** The step under the cursor. */
  #pointed: number | null = null;
  #asTable = false;
  readonly #resized = new ResizeObserver(() => this.#fit());
  readonly #themed = new MutationObserver(() => this.#plot?.redraw(false));
  readonly #dark = matchMedia("(prefers-color-scheme: dark)");
  readonly #redraw = () => void this.#plot?.redraw(false);

  constructor() {
    super();
    this.heading = "";
    this.unit = "count";
    this.height = HEIGHT;
    this.lines = [];
    this.marks = [];
  }

  override connectedCallback(): void {
    super.connectedCallback();
    this.#resized.observe(this);
    this.#themed.observe(document.documentElement, { attributeFilter: ["data-theme", "data-freshness"] });
    this.#dark.addEventListener("change", this.#redraw);
  }

  override disconnectedCallback(): void {
    super.disconnectedCallback();
    this.#resized.disconnect();
    this.#themed.disconnect();
    this.#dark.removeEventListener("change", this.#redraw);
    this.#discard();
  }

  protected override render() {
    const { columns } = this;
    return html`<figure class="chart">
      <figcaption>
        <h3>${this.heading}</h3>
        ${
          columns
            ? html`<button type="button" class="link" aria-pressed=${this.#asTable} @click=${() => this.#toggle()}>
              ${this.#asTable ? gettext("View as chart") : gettext("View as table")}
            </button>`
            : nothing
        }
        <ul class="chart-lines">
          ${this.lines.map((line) => this.#legend(line))}
        </ul>
      </figcaption>
      ${columns === undefined ? this.#loading() : this.#asTable ? this.#table(columns) : this.#picture(columns)}
      ${this.unlisted ? nothing : this.#markList()}
    </figure>`;
  }

  protected override updated(changes: PropertyValues<this>): void {
    const place = this.#place.value;
    if (!place || !this.columns) {
      this.#discard();
      return;
    }
    place.style.minHeight = `${this.height}px`;
    // Options that uPlot accepts only when it is created.
    const made = JSON.stringify([this.lines, this.unit, this.sync, this.columns.step_s]);
    if (this.#plot === undefined || made !== this.#plotted) {
      this.#discard();
      this.#plotted = made;
      this.#plot = new uPlot(this.#options(place), this.#values(this.columns), place);
    } else if (changes.has("columns") || changes.has("marks")) {
      this.#plot.setData(this.#values(this.columns));
    }
  }

  #discard(): void {
    this.#plot?.destroy();
    this.#plot = undefined;
  }

  #toggle(): void {
    this.#asTable = !this.#asTable;
    this.requestUpdate();
  }

  // ------------------------------------------------------------------ what is written

  #legend(line: Line): TemplateResult {
    const values = this.columns ? this.#line(line, this.columns) : [];
    const value = this.#pointed === null ? values.findLast((each) => each !== null) : values[this.#pointed];
    return html`<li>
      <i class="chart-line" data-key=${line.key} data-tone=${line.tone} ?data-dashed=${line.dashed}></i>
      ${line.label} <b class="num">${this.#written(value ?? null)}</b>
    </li>`;
  }

  #picture(columns: Columns): TemplateResult {
    const known = this.lines.some((line) => columns.series[line.key]?.some((value) => value !== null));
    const text = known ? this.#summary(columns) : this.empty || gettext("No data for this time: history begins when the node starts.");
    return html`<div class="chart-place" role="img" aria-label=${`${this.heading}. ${text}`} ${ref(this.#place)}></div>
      ${known ? nothing : html`<p class="quiet chart-nothing">${text}</p>`}`;
  }

  /** The chart in a sentence for each line. */
  #summary(columns: Columns): string {
    const sentences = this.lines.map((line) => {
      const values = this.#line(line, columns).filter((value) => value !== null);
      if (values.length === 0) return gettext("{label}: no data.", { label: line.label });
      const highest = values.reduce((most, value) => Math.max(most, value), -Infinity);
      const lowest = values.reduce((least, value) => Math.min(least, value), Infinity);
      return gettext("{label}: {last} at the end, {lowest} to {highest}.", {
        label: line.label,
        last: this.#written(values.at(-1)!),
        lowest: this.#written(lowest),
        highest: this.#written(highest),
      });
    });
    return sentences.join(" ");
  }

  #table(columns: Columns): TemplateResult {
    const times = moments(columns);
    const lines = this.lines.map((line) => this.#line(line, columns));
    const newest = times.map((_, index) => times.length - 1 - index).slice(0, SHOWN_STEPS);
    return html`<div class="chart-table" tabindex="0" role="region" aria-label=${this.heading}>
      <table class="resources">
        <caption class="quiet">
          ${ngettext("The newest value of {all}", "The newest {count} values of {all}", newest.length, { all: count(times.length) })}
        </caption>
        <thead>
          <tr>
            <th scope="col">${gettext("from")}</th>
            ${this.lines.map(({ label }) => html`<th scope="col" class="num">${label}</th>`)}
          </tr>
        </thead>
        <tbody>
          ${newest.map(
            (index) => html`<tr>
              <th scope="row">${this.#clock(times[index]!, true)}</th>
              ${lines.map((values) => html`<td class="num">${this.#written(values[index] ?? null)}</td>`)}
            </tr>`,
          )}
        </tbody>
      </table>
    </div>`;
  }

  #markList(): TemplateResult | typeof nothing {
    const marks = this.#marksShown().slice(-SHOWN_MARKS);
    if (marks.length === 0) return nothing;
    return html`<ol class="chart-marks">
      ${marks.map(
        ({ time_s, label, href }) => html`<li><span class="num">${this.#clock(time_s, true)}</span> ${href ? html`<a href=${href}>${label}</a>` : label}</li>`,
      )}
    </ol>`;
  }

  #loading(): TemplateResult {
    return html`<div class="skeleton chart-loading" role="status">
      <span class="visually-hidden">${gettext("Loading {what}", { what: this.heading })}</span>
      <div></div>
    </div>`;
  }

  #written(value: number | null): string {
    return value === null ? NONE : WRITTEN[this.unit](value);
  }

  /** A moment, with its day where the chart has several. */
  #clock(time_s: number, seconds: boolean): string {
    return written(time_s, { ...CLOCK, ...(this.#exceeds(DAYS_S) ? DAY : seconds && SECONDS) });
  }

  /** The label of an axis: the day where one begins, else the time of day. */
  #tick(time_s: number, seconds: boolean): string {
    const clock = written(time_s, { ...CLOCK, ...(seconds && SECONDS) });
    return this.#exceeds(DAYS_S) && clock === "00:00" ? written(time_s, DAY) : clock;
  }

  /** Whether the chart is longer than so many seconds. */
  #exceeds(span_s: number): boolean {
    return this.columns!.step_s * steps(this.columns!) > span_s;
  }

  // ------------------------------------------------------------------ what is drawn

  /** The values of a line as they are shown. */
  #line({ key }: Line, columns: Columns): (number | null)[] {
    const values = columns.series[key] ?? [];
    const per_s = PER_S[this.unit];
    return per_s ? values.map((value) => (value === null ? null : (value * per_s) / columns.step_s)) : values;
  }

  #values(columns: Columns): uPlot.AlignedData {
    return [moments(columns), ...this.lines.map((line) => this.#line(line, columns))] as uPlot.AlignedData;
  }

  #marksShown(): Mark[] {
    const times = this.columns ? moments(this.columns) : [];
    const [first, last] = [times[0] ?? Infinity, (times.at(-1) ?? 0) + (this.columns?.step_s ?? 0)];
    return this.marks.filter(({ time_s }) => time_s >= first && time_s <= last);
  }

  /** A colour of the page as the canvas takes it. They are read at each drawing, so a new theme is only another drawing. */
  #colour(selector: string, property: "color" | "backgroundColor" = "color"): string {
    const element = this.querySelector(selector);
    return element ? getComputedStyle(element)[property] : "gray";
  }

  #options(place: HTMLElement): uPlot.Options {
    const text = () => this.#colour(".chart-place");
    const font = `12px ${getComputedStyle(this).fontFamily}`;
    const grid = { stroke: () => getComputedStyle(place).outlineColor, width: 1 };
    const long = this.#exceeds(LONG_S);
    return {
      width: Math.max(1, place.clientWidth),
      height: this.height,
      padding: [8, 8, 0, 0],
      legend: { show: false },
      tzDate: (time_s) => uPlot.tzDate(new Date(time_s * 1000), zone()),
      cursor: {
        y: false,
        drag: { x: false, y: false },
        points: { size: 7 },
        ...(this.sync && { sync: { key: this.sync, setSeries: false } }),
      },
      scales: { y: { range: (_, __, highest) => [0, uPlot.rangeNum(0, Math.max(highest || 1, LOWEST_TOP[this.unit] ?? 0), 0.1, true)[1]!] } },
      axes: [
        {
          stroke: text,
          font,
          grid,
          ticks: { show: false },
          size: 28,
          space: 70,
          values: (_, times) => times.map((time) => this.#tick(time, !long && time % 60 !== 0)),
        },
        {
          stroke: text,
          font,
          grid,
          ticks: { show: false },
          size: 64,
          values: (_, values) => values.map((value) => this.#written(value)),
          incrs: STEPS[this.unit],
        },
      ],
      series: [{}, ...this.lines.map((line) => this.#series(line))],
      hooks: {
        setCursor: [
          (plot) => {
            const pointed = plot.cursor.idx ?? null;
            if (pointed === this.#pointed) return;
            this.#pointed = pointed;
            this.requestUpdate();
          },
        ],
        draw: [(plot) => this.#drawMarks(plot)],
      },
    };
  }

  #series({ key, label, form = "line", dashed }: Line): uPlot.Series {
    const swatch = `.chart-line[data-key="${CSS.escape(key)}"]`;
    return {
      label,
      width: 1.5,
      stroke: () => this.#colour(swatch),
      ...(form === "area" && { fill: () => this.#colour(swatch, "backgroundColor") }),
      ...(form === "steps" && { paths: uPlot.paths.stepped!({ align: 1 }) }),
      ...(dashed && { dash: [5, 4] }),
      // A value between two gaps is no line.
      points: { show: true, filter: (plot, index) => alone(plot.data[index] as (number | null)[]), size: 5 },
    };
  }

  #drawMarks({ ctx, bbox, valToPos }: uPlot): void {
    const marks = this.#marksShown();
    if (marks.length === 0) return;
    ctx.save();
    ctx.strokeStyle = this.#colour(".chart-place");
    ctx.lineWidth = devicePixelRatio;
    ctx.setLineDash([2 * devicePixelRatio, 3 * devicePixelRatio]);
    for (const { time_s } of marks) {
      const left = Math.round(valToPos(time_s, "x", true));
      ctx.beginPath();
      ctx.moveTo(left, bbox.top);
      ctx.lineTo(left, bbox.top + bbox.height);
      ctx.stroke();
    }
    ctx.restore();
  }

  #fit(): void {
    const width = this.#place.value?.clientWidth ?? 0;
    if (this.#plot && width > 0 && width !== this.#plot.width) this.#plot.setSize({ width, height: this.height });
  }
}

function written(time_s: number, parts: Intl.DateTimeFormatOptions): string {
  return new Date(time_s * 1000).toLocaleString(document.documentElement.lang || "en", { ...parts, timeZone: zone() });
}

/** The places of values without a neighbour. */
function alone(values: (number | null | undefined)[]): number[] {
  return [...values.keys()].filter((at) => values[at] != null && values[at - 1] == null && values[at + 1] == null);
}

customElements.define("mom-chart", Chart);
