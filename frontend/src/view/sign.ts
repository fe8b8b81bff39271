/** Signs of states: a word, a colour and a shape, so that they do not depend on colours. */

import { html, type TemplateResult } from "lit";

export type Tone = "good" | "quiet" | "warn" | "bad" | "accent";

export interface Sign {
  word: string;
  tone: Tone;
  shape: string;
}

/** The sign of a name that the page does not know: a page may be older than the broker. */
export function unknownSign(word: string): Sign {
  return { word, tone: "quiet", shape: "○" };
}

export function signView({ word, tone, shape }: Sign): TemplateResult {
  return html`<span class="state" data-tone=${tone}><span aria-hidden="true">${shape}</span> ${word}</span>`;
}
