import { html, nothing, type PropertyValues, type TemplateResult } from "lit";
import { ref, createRef } from "lit/directives/ref.js";
import uPlot from "uplot";
import "../style/chart.css";
import { moments, type Columns } from "../live/columns.ts";
import { gettext } from "../gettext.ts";
import { alone, chartTable, hasAny, marksWithin, summaryOf, valuesOf, type ChartLine, type ChartMark } from "../view/chart.ts";
import { clock, tick } from "../view/chart-time.ts";
import { AXIS_STEPS, LOWEST_TOP, inUnit, type Unit } from "../view/unit.ts";
import { zone } from "../view/zone.ts";
import { Island } from "./island.ts";

const HEIGHT = 180;
const SHOWN_MARKS = 20;

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
  declare lines: ChartLine[];
  declare columns: Columns | undefined;
  declare marks: ChartMark[];

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
      ${columns === undefined ? this.#loading() : this.#asTable ? chartTable(this.heading, this.lines, columns, this.unit) : this.#picture(columns)}
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

  #legend(line: ChartLine): TemplateResult {
    const values = this.columns ? valuesOf(line, this.columns, this.unit) : [];
    const value = this.#pointed === null ? values.findLast((each) => each !== null) : values[this.#pointed];
    return html`<li>
      <i class="chart-line" data-key=${line.key} data-tone=${line.tone} ?data-dashed=${line.dashed}></i>
      ${line.label} <b class="num">${inUnit(value ?? null, this.unit)}</b>
    </li>`;
  }

  #picture(columns: Columns): TemplateResult {
    const known = hasAny(this.lines, columns);
    const text = known ? summaryOf(this.lines, columns, this.unit) : this.empty || gettext("No data for this time: history begins when the node starts.");
    return html`<div class="chart-place" role="img" aria-label=${`${this.heading}. ${text}`} ${ref(this.#place)}></div>
      ${known ? nothing : html`<p class="quiet chart-nothing">${text}</p>`}`;
  }

  #markList(): TemplateResult | typeof nothing {
    const marks = this.#marksShown().slice(-SHOWN_MARKS);
    if (marks.length === 0) return nothing;
    return html`<ol class="chart-marks">
      ${marks.map(
        ({ time_s, label, href }) =>
          html`<li><span class="num">${clock(time_s, this.columns!)}</span> ${href ? html`<a href=${href}>${label}</a>` : label}</li>`,
      )}
    </ol>`;
  }

  #loading(): TemplateResult {
    return html`<div class="skeleton chart-loading" role="status">
      <span class="visually-hidden">${gettext("Loading {what}", { what: this.heading })}</span>
      <div></div>
    </div>`;
  }

  // ------------------------------------------------------------------ what is drawn

  #values(columns: Columns): uPlot.AlignedData {
    return [moments(columns), ...this.lines.map((line) => valuesOf(line, columns, this.unit))] as uPlot.AlignedData;
  }

  #marksShown(): ChartMark[] {
    return this.columns ? marksWithin(this.marks, this.columns) : [];
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
          values: (_, times) => times.map((time) => tick(time, this.columns!)),
        },
        {
          stroke: text,
          font,
          grid,
          ticks: { show: false },
          size: 64,
          values: (_, values) => values.map((value) => inUnit(value, this.unit)),
          incrs: AXIS_STEPS[this.unit],
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

  #series({ key, label, form = "line", dashed }: ChartLine): uPlot.Series {
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

customElements.define("mom-chart", Chart);
