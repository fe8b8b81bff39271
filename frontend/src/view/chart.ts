/** The lines of a chart: their values, in a sentence and as a table. */

import { html, type TemplateResult } from "lit";
import { gettext, ngettext } from "../gettext.ts";
import { moments, type Columns } from "../live/columns.ts";
import { clock } from "./chart-time.ts";
import { count } from "./format.ts";
import { inUnit, shownValues, type Unit } from "./unit.ts";

/** Steps that the table shows. */
const SHOWN_STEPS = 100;

/** One line of a chart. */
export interface ChartLine {
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
export interface ChartMark {
  /** Seconds since 1970. */
  time_s: number;
  label: string;
  href?: string;
}

/** The values of a line as they are shown. */
export function valuesOf({ key }: ChartLine, columns: Columns, unit: Unit): (number | null)[] {
  return shownValues(columns.series[key] ?? [], unit, columns.step_s);
}

/** Whether any value of the lines is known. */
export function hasAny(lines: ChartLine[], { series }: Columns): boolean {
  return lines.some(({ key }) => series[key]?.some((value) => value !== null));
}

/** The chart in a sentence for each line. */
export function summaryOf(lines: ChartLine[], columns: Columns, unit: Unit): string {
  const sentences = lines.map((line) => {
    const values = valuesOf(line, columns, unit).filter((value) => value !== null);
    if (values.length === 0) return gettext("{label}: no data.", { label: line.label });
    const highest = values.reduce((most, value) => Math.max(most, value), -Infinity);
    const lowest = values.reduce((least, value) => Math.min(least, value), Infinity);
    return gettext("{label}: {last} at the end, {lowest} to {highest}.", {
      label: line.label,
      last: inUnit(values.at(-1)!, unit),
      lowest: inUnit(lowest, unit),
      highest: inUnit(highest, unit),
    });
  });
  return sentences.join(" ");
}

/** The marks within the time of the columns. */
export function marksWithin(marks: ChartMark[], columns: Columns): ChartMark[] {
  const times = moments(columns);
  const [first, last] = [times[0] ?? Infinity, (times.at(-1) ?? 0) + columns.step_s];
  return marks.filter(({ time_s }) => time_s >= first && time_s <= last);
}

/** The places of values without a neighbour. */
export function alone(values: (number | null | undefined)[]): number[] {
  return [...values.keys()].filter((at) => values[at] != null && values[at - 1] == null && values[at + 1] == null);
}

/** The newest values of all lines as a table. */
export function chartTable(heading: string, lines: ChartLine[], columns: Columns, unit: Unit): TemplateResult {
  const times = moments(columns);
  const shown = lines.map((line) => valuesOf(line, columns, unit));
  const newest = times.map((_, index) => times.length - 1 - index).slice(0, SHOWN_STEPS);
  return html`<div class="chart-table" tabindex="0" role="region" aria-label=${heading}>
    <table class="resources">
      <caption class="quiet">
        ${ngettext("The newest value of {all}", "The newest {count} values of {all}", newest.length, { all: count(times.length) })}
      </caption>
      <thead>
        <tr>
          <th scope="col">${gettext("from")}</th>
          ${lines.map(({ label }) => html`<th scope="col" class="num">${label}</th>`)}
        </tr>
      </thead>
      <tbody>
        ${newest.map(
          (index) => html`<tr>
            <th scope="row">${clock(times[index]!, columns)}</th>
            ${shown.map((values) => html`<td class="num">${inUnit(values[index] ?? null, unit)}</td>`)}
          </tr>`,
        )}
      </tbody>
    </table>
  </div>`;
}
