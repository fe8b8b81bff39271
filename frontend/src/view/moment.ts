import { html, type TemplateResult } from "lit";
import { ago, fullTime } from "./format.ts";

/** A time: how long ago in sight, whole on hover, ISO for who copies it. */
export function moment(time: string): TemplateResult {
  return html`<time datetime=${time} title=${fullTime(time)}>${ago(time)}</time>`;
}
