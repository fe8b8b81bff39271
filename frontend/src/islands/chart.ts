import { html, nothing, svg, type PropertyValues, type TemplateResult } from "lit";
import { ref, createRef } from "lit/directives/ref.js";
import "../style/chart.css";
import { moments, type Columns } from "../live/columns.ts";
import { gettext } from "../gettext.ts";
import { chartTable, hasAny, marksWithin, summaryOf, valuesOf, type ChartLine, type ChartMark } from "../view/chart.ts";
import { clock, tick } from "../view/chart-time.ts";
import { Plot } from "../view/plot.ts";
import { inUnit, type Unit } from "../view/unit.ts";
import { offset } from "../view/zone.ts";
import { Island } from "./island.ts";

const HEIGHT = 180;
const SHOWN_MARKS = 20;
/** Pixels between the cursor and its box. */
const TIP_GAP = 10;

/** Charts with a common cursor, by its name. */
const together = new Map<string, Set<Chart>>();

/**
 * A chart over time, and the same values as a table. Attributes: `heading`, `unit`, `sync` (charts with the same name
 * have a common cursor), `height` in pixels, `empty` for the text without values, and `unlisted` if another chart of the
 * page lists the marks. Properties, or attributes of JSON: `lines`, `columns` (assign a new object to redraw); property:
 * `marks`. Without columns it shows that it is loading.
 */
export class Chart extends Island {
  static override properties = {
    heading: {},
    unit: {},
    sync: {},
    height: { type: Number },
    empty: {},
    unlisted: { type: Boolean },
    lines: { type: Array },
    columns: { type: Object },
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
  readonly #tipped = createRef<HTMLElement>();
  #plot: Plot | undefined;
  #width = 0;
  /** The step under the cursor. */
  #pointed: number | null = null;
  #asTable = false;
  readonly #resized = new ResizeObserver(() => this.#fit());

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
    if (this.sync) together.set(this.sync, (together.get(this.sync) ?? new Set()).add(this));
  }

  override disconnectedCallback(): void {
    super.disconnectedCallback();
    this.#resized.disconnect();
    if (this.sync) together.get(this.sync)?.delete(this);
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

  protected override updated(_: PropertyValues<this>): void {
    if (this.#place.value) this.#place.value.style.minHeight = `${this.height}px`;
    this.#fit();
    this.#placeTip();
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
      <i class="chart-line" data-tone=${line.tone} ?data-dashed=${line.dashed}></i>
      ${line.label} <b class="num">${inUnit(value ?? null, this.unit)}</b>
    </li>`;
  }

  #picture(columns: Columns): TemplateResult {
    const known = hasAny(this.lines, columns);
    const text = known ? summaryOf(this.lines, columns, this.unit) : this.empty || gettext("No data for this time: history begins when the node starts.");
    return html`<div class="chart-place" role="img" aria-label=${`${this.heading}. ${text}`} ${ref(this.#place)}
        @pointermove=${(event: PointerEvent) => this.#point(event)} @pointerleave=${() => this.#pointAll(null)}>
        ${this.#width > 0 ? this.#drawing(columns) : nothing}${this.#tip(columns)}
      </div>
      ${known ? nothing : html`<p class="quiet chart-nothing">${text}</p>`}`;
  }

  /** What is at the cursor, beginning with the time. The legend has the values, too. */
  #tip(columns: Columns): TemplateResult | typeof nothing {
    const at = this.#pointed;
    const time = at === null ? undefined : moments(columns)[at];
    if (at === null || time === undefined) return nothing;
    return html`<div class="chart-tip" ${ref(this.#tipped)}>
      <b class="num">${clock(time, columns)}</b>
      ${this.lines.map(
        (line) =>
          html`<span><i class="chart-line" data-tone=${line.tone} ?data-dashed=${line.dashed}></i>${line.label} <b class="num">${inUnit(valuesOf(line, columns, this.unit)[at] ?? null, this.unit)}</b></span>`,
      )}
    </div>`;
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

  #marksShown(): ChartMark[] {
    return this.columns ? marksWithin(this.marks, this.columns) : [];
  }

  // ------------------------------------------------------------------ what is drawn

  #drawing(columns: Columns): TemplateResult {
    const values = this.lines.map((line) => valuesOf(line, columns, this.unit));
    const plot = new Plot(this.#width, this.height, columns, values, this.unit);
    this.#plot = plot;
    const { left, right, top, bottom } = plot;
    const at = this.#pointed === null ? undefined : moments(columns)[this.#pointed];
    return html`<svg aria-hidden="true" width=${this.#width} height=${this.height}>
      ${plot.ticksY.map(({ value, at }) => svg`<path class="grid" d="M${left} ${at}H${right}"/><text x=${left - 8} y=${at} dy="0.35em" text-anchor="end">${inUnit(value, this.unit)}</text>`)}
      ${plot.ticksX(offset(columns.t0)).map(({ value, at }) => svg`<path class="grid" d="M${at} ${top}V${bottom}"/><text x=${at} y=${this.height - 4} text-anchor="middle">${tick(value, columns)}</text>`)}
      ${this.lines.map((line, number) => this.#line(line, plot, values[number]!))}
      ${this.#marksShown().map(({ time_s }) => svg`<path class="mark" d="M${plot.x(time_s)} ${top}V${bottom}"/>`)}
      ${at === undefined ? nothing : svg`<path class="cursor" d="M${plot.x(at)} ${top}V${bottom}"/>`}
    </svg>`;
  }

  #line({ tone, form = "line", dashed }: ChartLine, plot: Plot, values: (number | null)[]): TemplateResult {
    const { line, area, dots } = plot.draw(values, form === "steps");
    return svg`<g data-tone=${tone} ?data-dashed=${dashed}>
      ${form === "area" ? svg`<path class="area" d=${area}/>` : nothing}<path class="line" d=${line}/>
      ${dots.map(([x, y]) => svg`<circle cx=${x} cy=${y} r="2.5"/>`)}
    </g>`;
  }

  /** Take the width that there is, which is known once it is shown. */
  #fit(): void {
    const width = this.#place.value?.clientWidth ?? 0;
    if (width === 0 || width === this.#width) return;
    this.#width = width;
    this.requestUpdate();
  }

  // ------------------------------------------------------------------ the cursor

  #point(event: PointerEvent): void {
    const left = this.#place.value?.getBoundingClientRect().left ?? 0;
    this.#pointAll(this.#plot?.nearest(event.clientX - left) ?? null);
  }

  #pointAll(step: number | null): void {
    for (const chart of (this.sync && together.get(this.sync)) || [this]) chart.#pointTo(step);
  }

  #pointTo(step: number | null): void {
    if (step === this.#pointed) return;
    this.#pointed = step;
    this.requestUpdate();
  }

  /** Put the box next to the cursor: at its right, or at its left where the right has no room. */
  #placeTip(): void {
    const tip = this.#tipped.value;
    if (tip === undefined || this.#pointed === null || !this.columns || !this.#plot) return;
    const at = this.#plot.x(moments(this.columns)[this.#pointed]!);
    const left = at + TIP_GAP + tip.offsetWidth > this.#width ? at - TIP_GAP - tip.offsetWidth : at + TIP_GAP;
    tip.style.translate = `${Math.max(0, left)}px`;
  }
}

customElements.define("mom-chart", Chart);
