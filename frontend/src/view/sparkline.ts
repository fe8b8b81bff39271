import { svg, type SVGTemplateResult } from "lit";
import { TREND_S, TREND_STEP_S } from "../live/statistics.ts";

const WIDTH = 80;
const HEIGHT = 20;

/** Depth over five minutes as one path; the right edge is now, the height is scaled to the row's own peak. */
export function sparkline(points: readonly { step: number; depth: number }[]): SVGTemplateResult {
  return svg`<svg class="spark" viewBox="0 0 ${WIDTH} ${HEIGHT}" preserveAspectRatio="none" aria-hidden="true">
    <path class="axis" d="M0 ${HEIGHT - 1}H${WIDTH}"></path>
    <path d=${outline(points)}></path>
  </svg>`;
}

function outline(points: readonly { step: number; depth: number }[]): string {
  const last = points.at(-1);
  if (last === undefined) return "";
  const peak = Math.max(1, ...points.map((point) => point.depth));
  const perStep = WIDTH / (TREND_S / TREND_STEP_S - 1);
  const at = ({ step, depth }: { step: number; depth: number }) =>
    `${(WIDTH - (last.step - step) * perStep).toFixed(1)} ${(HEIGHT - 1 - (depth / peak) * (HEIGHT - 2)).toFixed(1)}`;
  // A single point would be invisible: draw it as a short level line.
  const first = points.length === 1 ? [`M${at({ ...last, step: last.step - 1 })}`] : [];
  return [...first, ...points.map((point, index) => `${first.length || index ? "L" : "M"}${at(point)}`)].join("");
}
