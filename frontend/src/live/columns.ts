/** The past as columns of numbers, one for each step, as `GET …/stats` gives it. */

export interface Columns {
  /** Where the first step begins, in seconds since 1970. */
  t0: number;
  step_s: number;
  /** Null where nothing is known. */
  series: Record<string, (number | null)[]>;
}

/** The number of steps. */
export function steps({ series }: Columns): number {
  return Math.max(0, ...Object.values(series).map((column) => column.length));
}

/** Where each step begins, in seconds since 1970. */
export function moments(columns: Columns): number[] {
  return Array.from({ length: steps(columns) }, (_, index) => columns.t0 + index * columns.step_s);
}

/** Columns that count what moved within a step; all others are as of its end. */
const COUNTS = ["in", "out", "acked", "dead", "expired"];

/**
 * The columns for a chart, known up to `second`: what moved in a step that is not over is not drawn, since it would look
 * like a fall. What is as of the end of a step is drawn at once.
 */
export function drawn({ t0, step_s, series }: Columns, second: number): Columns {
  const finished = Math.floor((second + 1 - t0) / step_s);
  const cut = (column: (number | null)[]) => column.map((value, step) => (step < finished ? value : null));
  return { t0, step_s, series: Object.fromEntries(Object.entries(series).map(([key, column]) => [key, COUNTS.includes(key) ? cut(column) : column])) };
}

/**
 * The columns with one more second, of the same length: `counts` are added to the current step, `gauges` replace its
 * values. Other columns have no value in a new step.
 */
export function withSecond(columns: Columns, second: number, counts: Record<string, number>, gauges: Record<string, number>): Columns {
  const length = steps(columns);
  const index = Math.floor((second - columns.t0) / columns.step_s);
  const later = Math.max(0, index - length + 1);
  if (index < 0 || length === 0) return columns;
  const series: Columns["series"] = {};
  for (const [key, column] of Object.entries(columns.series)) {
    const values = later === 0 ? [...column] : [...column, ...Array<null>(later).fill(null)].slice(-length);
    const at = index - later;
    if (key in counts) values[at] = (values[at] ?? 0) + counts[key]!;
    else if (key in gauges) values[at] = gauges[key]!;
    series[key] = values;
  }
  return { t0: columns.t0 + later * columns.step_s, step_s: columns.step_s, series };
}
