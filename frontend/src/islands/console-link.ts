import { html, type TemplateResult } from "lit";
import { pageAt } from "../live/consoles.ts";

/** A link to the page that is shown, at the console of another broker. */
export function consoleLink(web: string): TemplateResult {
  return html`<a href=${pageAt(web)}>${web}</a> `;
}
