/** Signs of states: a word, a colour and an icon, so that they do not depend on colours. */

import { html, type TemplateResult } from "lit";
import { iconView } from "./icon.ts";

export type Tone = "good" | "quiet" | "warn" | "bad" | "accent";

export interface Sign {
  word: string;
  tone: Tone;
  icon: string;
}

/** The sign of a state; of one that the page does not know, its name: a page may be older than the broker. */
export function signIn<State extends string>(signs: Record<State, Sign>, state: State): Sign {
  return signs[state] ?? { word: state, tone: "quiet", icon: "circle" };
}

export function signView({ word, tone, icon }: Sign): TemplateResult {
  return html`<span class="state" data-tone=${tone}>${iconView(icon)} ${word}</span>`;
}
