/** The reasons why a message is where it is, as a list. */

import { html, nothing, type TemplateResult } from "lit";
import { gettext } from "../gettext.ts";
import type { Reason } from "./requests.ts";

export function reasonList(reasons: Reason[]): TemplateResult {
  return html`<ol class="reasons">
    ${reasons.map(({ code, sentence }) => html`<li><span class="tag">${code}</span> ${sentence}</li>`)}
    ${reasons.length === 0 ? html`<li>${gettext("It is no longer here.")}</li>` : nothing}
  </ol>`;
}
