/** Sparklines: a number over the last five minutes as one path, without axes. */

import { svg, type SVGTemplateResult } from "lit";

export const WIDTH = 80;
export const HEIGHT = 20;
/** Numbers of a whole one, in steps of ten seconds. */
export const STEPS = 30;

/** The path of up to `STEPS` numbers: the right edge is now, the height is that of their own peak. What never moved has none. */
export function outline(numbers: readonly number[]): string {
  if (numbers.every((number) => number === 0)) return "";
  const peak = Math.max(1, ...numbers);
  const perStep = WIDTH / (STEPS - 1);
  // One number alone would be invisible: it is drawn as a short level line.
  const points = numbers.length === 1 ? [numbers[0]!, numbers[0]!] : numbers;
  const first = WIDTH - (points.length - 1) * perStep;
  return points.map((number, index) => `${index ? "L" : "M"}${tenth(first + index * perStep)} ${tenth(HEIGHT - 1 - (number / peak) * (HEIGHT - 2))}`).join("");
}

function tenth(value: number): number {
  return Math.round(value * 10) / 10;
}

export function sparkline(numbers: readonly number[]): SVGTemplateResult {
  return svg`<svg class="spark" viewBox="0 0 ${WIDTH} ${HEIGHT}" preserveAspectRatio="none" aria-hidden="true">
    <path d=${outline(numbers)}></path>
  </svg>`;
}
