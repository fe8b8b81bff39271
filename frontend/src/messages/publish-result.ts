/** The response to publishing: what was stored, what was refused, and links to it. */

import { html, nothing, type TemplateResult } from "lit";
import { gettext, ngettext } from "../gettext.ts";
import { pageOf } from "../pages.ts";
import { count } from "../view/format.ts";
import { isQueue } from "../view/name.ts";
import type { Sent } from "./publish-request.ts";
import { iconView } from "../view/icon.ts";

const SHOWN_IDS = 50;

export interface PublishResult {
  sent: Sent;
  tookMs: number;
  running: boolean;
  /** The status of the message: its consumer, or why it waits. */
  status: string;
  error: string;
}

export function publishResult({ sent, tookMs, running, status, error }: PublishResult, destination: string): TemplateResult {
  const ms = tookMs.toFixed(0);
  return html`${
    sent.ids.length > 0 || running
      ? html`<div class="notice" data-tone=${running ? "quiet" : "good"}>
          <strong>${running ? gettext("Sending…") : gettext("● Confirmed")}</strong>
          ${ngettext("{count} message is stored, after {ms} ms.", "{count} messages are stored, after {ms} ms.", sent.ids.length, { ms })}
          ${status ? html`<span>${gettext("Now: {what}.", { what: status })}</span>` : nothing}
          ${sent.duplicates ? ngettext("{count} was a duplicate.", "{count} were duplicates.", sent.duplicates) : nothing}
          ${isQueue(destination) && !running ? html`<a href=${pageOf(destination, "", { order: "newest" })}>${gettext("View messages")}</a>` : nothing}
          ${idList(sent.ids, destination)}
        </div>`
      : nothing
  }
    ${
      error || sent.errors.length > 0
        ? html`<div class="notice" data-tone="bad" role="alert">
          <strong>${iconView("circle-x")} ${gettext("Refused.")}</strong> ${error || sent.errors[0]}
          ${sent.errors.length > 1 ? gettext("({count} messages)", { count: count(sent.errors.length) }) : nothing}
        </div>`
        : nothing
    }`;
}

function idList(ids: string[], destination: string): TemplateResult | typeof nothing {
  if (ids.length === 0) return nothing;
  const link = (id: string) => (isQueue(destination) ? html`<a href=${pageOf(destination, "", { message: id })}>${id}</a>` : html`<code>${id}</code>`);
  if (ids.length === 1) return html`<div class="results">${link(ids[0]!)}</div>`;
  return html`<details>
    <summary>${gettext("Ids")}</summary>
    <ol class="results">${ids.slice(-SHOWN_IDS).map((id) => html`<li>${link(id)}</li>`)}</ol>
    ${ids.length > SHOWN_IDS ? html`<p class="hint">${gettext("Only the last {count} are shown.", { count: SHOWN_IDS })}</p>` : nothing}
  </details>`;
}
