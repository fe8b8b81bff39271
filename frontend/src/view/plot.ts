/** The geometry of a chart over time: its axes with their ticks, and the lines in its box. */

import { moments, type Columns } from "../live/columns.ts";
import { AXIS_STEPS, LOWEST_TOP, type Unit } from "./unit.ts";

/** Pixels around the box with the lines: the labels of the axes are at its left and below it. */
const LEFT = 58;
const RIGHT = 8;
const TOP = 8;
const BELOW = 22;
/** The least pixels between two ticks. */
const APART_X = 76;
const APART_Y = 32;

/** Seconds between ticks of time: those of a day begin with it, in the zone of the page. */
const TIMES = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400, 172_800, 604_800, 1_209_600];
const STEPS = [1, 2, 5].flatMap((digit) => Array.from({ length: 15 }, (_, zeros) => digit * 10 ** zeros)).sort((a, b) => a - b);

/** A tick: its value, and its pixel from the left or from the top. */
export interface Tick {
  value: number;
  at: number;
}

/** One line: its path, that of the area below it, and values without a neighbour, which are no line. */
export interface Drawn {
  line: string;
  area: string;
  dots: [x: number, y: number][];
}

/** Where everything of a chart is, in pixels. */
export class Plot {
  readonly left = LEFT;
  readonly right: number;
  readonly top = TOP;
  readonly bottom: number;
  readonly #times: number[];
  readonly #first: number;
  readonly #span: number;
  readonly #stepY: number;
  readonly #highest: number;

  /** A chart of `width` and `height` pixels for the values of all its lines. */
  constructor(width: number, height: number, columns: Columns, values: (number | null)[][], unit: Unit) {
    this.right = Math.max(LEFT + 1, width - RIGHT);
    this.bottom = height - BELOW;
    this.#times = moments(columns);
    this.#first = this.#times[0] ?? 0;
    this.#span = Math.max(1, (this.#times.at(-1) ?? 0) - this.#first);
    let most = LOWEST_TOP[unit] ?? 0;
    for (const line of values) for (const value of line) if (value !== null && value > most) most = value;
    const room = Math.max(1, Math.floor((this.bottom - TOP) / APART_Y));
    const steps = AXIS_STEPS[unit] ?? STEPS;
    this.#stepY = steps.find((step) => (most || 1) / step <= room) ?? steps.at(-1)!;
    this.#highest = Math.max(1, Math.ceil((most || 1) / this.#stepY)) * this.#stepY;
  }

  /** The pixel of a time. */
  x(time_s: number): number {
    return this.left + ((time_s - this.#first) / this.#span) * (this.right - this.left);
  }

  /** The pixel of a value. */
  y(value: number): number {
    return this.bottom - (value / this.#highest) * (this.bottom - this.top);
  }

  /** The step that is nearest to a pixel. */
  nearest(x: number): number | null {
    const last = this.#times.length - 1;
    if (last < 0) return null;
    return Math.min(last, Math.max(0, Math.round(((x - this.left) / (this.right - this.left)) * last)));
  }

  /** Round values, from 0 to the top. */
  get ticksY(): Tick[] {
    const count = Math.round(this.#highest / this.#stepY);
    return Array.from({ length: count + 1 }, (_, number) => ({ value: number * this.#stepY, at: this.y(number * this.#stepY) }));
  }

  /** Round times; `offset_s` is how far the clocks of the zone are ahead of UTC. */
  ticksX(offset_s: number): Tick[] {
    const room = Math.max(1, Math.floor((this.right - this.left) / APART_X));
    const step = TIMES.find((seconds) => this.#span / seconds <= room) ?? this.#span;
    const found: Tick[] = [];
    for (let time = Math.ceil((this.#first + offset_s) / step) * step - offset_s; time <= this.#first + this.#span; time += step) {
      found.push({ value: time, at: this.x(time) });
    }
    return found;
  }

  /** A line of values, one for each step; with `stepped` each value holds until the next one. */
  draw(values: (number | null)[], stepped: boolean): Drawn {
    const drawn: Drawn = { line: "", area: "", dots: [] };
    for (let begin = 0; begin < values.length; begin += 1) {
      if (values[begin] == null) continue;
      let end = begin;
      while (values[end + 1] != null) end += 1;
      this.#run(values, begin, end, stepped, drawn);
      begin = end;
    }
    return drawn;
  }

  /** Add the values from `begin` to `end`, none of which is missing. */
  #run(values: (number | null)[], begin: number, end: number, stepped: boolean, drawn: Drawn): void {
    const point = (at: number): [number, number] => [round(this.x(this.#times[at]!)), round(this.y(values[at]!))];
    const [x, y] = point(begin);
    if (begin === end) {
      drawn.dots.push([x, y]);
      return;
    }
    let path = `${x} ${y}`;
    for (let at = begin + 1; at <= end; at += 1) {
      const [toX, toY] = point(at);
      path += stepped ? `H${toX}V${toY}` : `L${toX} ${toY}`;
    }
    drawn.line += `M${path}`;
    drawn.area += `M${x} ${round(this.bottom)}L${path}V${round(this.bottom)}Z`;
  }
}

function round(pixel: number): number {
  return Math.round(pixel * 10) / 10;
}
