import { html, type TemplateResult } from "lit";
import { ago, fullTime } from "./format.ts";

/** A time: its age, in full as a tooltip, in ISO format when copied. */
export function moment(time: string): TemplateResult {
  return html`<time datetime=${time} title=${fullTime(time)}>${ago(time)}</time>`;
}
