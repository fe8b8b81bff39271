import { html, nothing, type TemplateResult } from "lit";
import { gettext } from "../gettext.ts";
import type { Polling } from "../live/polling.ts";

/**
 * The answer of `polling` as `shown` renders it: with placeholders before the first one, and with the reason when it
 * could not be read again; `old` is true then.
 */
export function polled<Answer>(polling: Polling<Answer>, shown: (answer: Answer, old: boolean) => unknown): TemplateResult {
  const { answer, fault, refused } = polling;
  if (answer === undefined && !fault) {
    return html`<div class="skeleton" role="status"><span class="visually-hidden">${gettext("Loading")}</span><div></div><div></div><div></div></div>`;
  }
  const again = refused ? nothing : html`<button type="button" class="link" @click=${() => polling.again()}>${gettext("Try again")}</button>`;
  return html`
    ${
      fault
        ? html`<p class="notice" data-tone=${answer ? "warn" : "bad"} role="status">
          ${answer ? gettext("The values shown are not up to date: {fault}", { fault }) : fault} ${again}
        </p>`
        : nothing
    }
    ${answer === undefined ? nothing : shown(answer, fault !== "")}
  `;
}
