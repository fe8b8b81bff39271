/** Signs of states: a word, a colour and an icon, so that they do not depend on colours. */

import { html, type TemplateResult } from "lit";
import { iconView } from "./icon.ts";

export type Tone = "good" | "quiet" | "warn" | "bad" | "accent";

export interface Sign {
  word: string;
  tone: Tone;
  icon: string;
}

/** The sign of a name that the page does not know: a page may be older than the broker. */
export function unknownSign(word: string): Sign {
  return { word, tone: "quiet", icon: "circle" };
}

export function signView({ word, tone, icon }: Sign): TemplateResult {
  return html`<span class="state" data-tone=${tone}>${iconView(icon)} ${word}</span>`;
}
