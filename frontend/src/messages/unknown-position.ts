/** The notice above a page of messages that is not the one in the address. */

import { html, type TemplateResult } from "lit";
import { gettext } from "../gettext.ts";

export function ofAnotherJournal(): TemplateResult {
  return html`<p class="notice" data-tone="warn" role="status">
    ${gettext("The address names a place that is not in this journal: one of another broker, or of this one before it was set up again or restored. The first page is shown.")}
  </p>`;
}
