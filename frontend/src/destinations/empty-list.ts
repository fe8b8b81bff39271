/** What is shown instead of rows: while they load, where there are none, and where none matches. */

import { html, nothing, type TemplateResult } from "lit";
import { gettext, ngettext } from "../gettext.ts";
import { snippetBlock } from "../islands/snippet-block.ts";
import { pageOf } from "../pages.ts";
import { server } from "../services.ts";
import { publishSnippets } from "../view/snippets.ts";
import type { Kind } from "./address.ts";
import { iconView } from "../view/icon.ts";

export function skeleton(kind: Kind): TemplateResult {
  return html`<div class="skeleton" role="status">
    <span class="visually-hidden">${kind === "queue" ? gettext("Loading queues") : gettext("Loading topics")}</span>
    ${Array.from({ length: 8 }, () => html`<div></div>`)}
  </div>`;
}

/** `welcome` is the address of the first steps, `create` the button of a new one. */
export function nothingYet(kind: Kind, welcome: string, create: TemplateResult): TemplateResult {
  const queue = kind === "queue";
  const address = `/${kind}/hello`;
  return html`<div class="empty">
    ${iconView(queue ? "inbox" : "radio")}
    <h2>${queue ? gettext("No queues yet") : gettext("No topics yet")}</h2>
    <p>
      ${
        queue
          ? gettext("A queue keeps messages until a consumer acknowledges them. It is created by its first message.")
          : gettext("A topic delivers each message to all its subscribers. It is created by its first message.")
      }
    </p>
    <div class="tools">
      <a class="button primary" href=${pageOf(address, "publish")}>${gettext("Publish a message")}</a>
      ${create} ${welcome ? html`<a href=${welcome}>${gettext("First steps")}</a>` : nothing}
    </div>
    ${publishSnippets(address, server).map(snippetBlock)}
  </div>`;
}

/** `all` is the number of destinations without the filter. */
export function nothingMatches(kind: Kind, all: number, clear: () => void): TemplateResult {
  const text =
    kind === "queue"
      ? ngettext("No queue matches the filter. {count} queue in total.", "No queue matches the filter. {count} queues in total.", all)
      : ngettext("No topic matches the filter. {count} topic in total.", "No topic matches the filter. {count} topics in total.", all);
  return html`<div class="empty">
    ${iconView("search")}
    <p>${text}</p>
    <button type="button" @click=${clear}>${gettext("Clear filter")}</button>
  </div>`;
}
