/** The search box above the messages of a queue, with its syntax, and the counts below it. */

import { html, nothing, type TemplateResult } from "lit";
import { gettext } from "../gettext.ts";
import { pageAddress } from "../services.ts";
import { count } from "../view/format.ts";
import { toggled } from "./search.ts";
import type { SearchResults } from "./search-results.ts";
import { ofAnotherJournal } from "./unknown-position.ts";
import { iconView } from "../view/icon.ts";

/** Origins and reasons of dead letters that are named at most. */
const NAMED = 5;

/** `isTail`: new messages are shown, which cannot be searched; `toggleTail` turns that on and off. */
export function searchForm(searchError: string, isTail: boolean, toggleTail: () => void): TemplateResult {
  const newest = pageAddress.get("order") === "newest";
  const search = (event: SubmitEvent) => {
    event.preventDefault();
    const text = (event.target as HTMLFormElement).querySelector<HTMLInputElement>("#search")!.value.trim();
    pageAddress.go({ q: text, after: "", message: "" });
  };
  const order = (value: string) => pageAddress.go({ order: value, after: "", message: "" });
  return html`<form class="message-search" role="search" data-island @submit=${search}>
    <div class="tools">
      <label class="filter">${iconView("search")}<input
        id="search" type="search" name="q" autocomplete="off" spellcheck="false" enterkeyhint="search" ?disabled=${isTail}
        aria-label=${gettext("Search messages")} aria-invalid=${searchError ? "true" : nothing} aria-describedby="search-help"
        placeholder=${gettext("words, header.tenant=acme, age>1h, reason:…")} .value=${pageAddress.get("q")}
      /></label>
      <button type="submit" ?disabled=${isTail}>${gettext("Search")}</button>
      <div class="segments" role="group" aria-label=${gettext("Start at")}>
        <button type="button" aria-pressed=${!newest} @click=${() => order("")}>${gettext("Oldest")}</button>
        <button type="button" aria-pressed=${newest} @click=${() => order("newest")}>${gettext("Newest")}</button>
      </div>
      <button type="button" aria-pressed=${isTail} @click=${toggleTail}>${iconView(isTail ? "circle-pause" : "play")} ${isTail ? gettext("Stop tailing") : gettext("Tail")}</button>
    </div>
    <details class="search-help" id="search-help">
      <summary>${gettext("Search syntax")}</summary>
      <dl class="pairs">
        <dt translate="no">paid invoice</dt><dd>${gettext("text in bodies or headers, not case-sensitive")}</dd>
        <dt translate="no">header.tenant="acme ltd"</dt><dd>${gettext("a header with this value; also type:, content-type:, correlation-id:")}</dd>
        <dt translate="no">age&gt;1h age&lt;2d</dt><dd>${gettext("age of the message in the queue: s, min, h, d")}</dd>
        <dt translate="no">reason:"schema v3" origin:orders</dt><dd>${gettext("reason and origin of a dead letter")}</dd>
        <dt translate="no">is:unsettled</dt><dd>${gettext("delivered and not yet settled; also is:ready, is:delayed")}</dd>
        <dt translate="no">id:01J…</dt><dd>${gettext("one message")}</dd>
        <dt translate="no">colour = 'red' AND size &gt; 3</dt><dd>${gettext("a selector: operators with spaces around them")}</dd>
      </dl>
    </details>
    ${searchError ? html`<p class="hint" data-tone="bad" role="alert">${iconView("circle-x")} ${searchError}</p>` : nothing}
  </form>`;
}

/** How many messages were found; dead letters by origin and reason. */
export function searchCounts(results: SearchResults, reload: () => void): TemplateResult {
  const { digest } = results;
  return html`<div class="message-facts">
    <p class="quiet" role="status">
      ${results.summary}
      ${
        results.since === ""
          ? nothing
          : html`<button type="button" class="link" @click=${reload}>${gettext("Refresh")}</button>
            ${results.since === "emptied" ? gettext("the queue is empty now") : gettext("the queue has changed since then")}`
      }
    </p>
    ${results.unknownPosition ? ofAnotherJournal() : nothing}
    ${
      results.notShown.length > 0
        ? html`<p class="notice" data-tone="warn" role="status">${gettext("Messages of {brokers} are not shown: they cannot be asked now.", { brokers: results.notShown.join(", ") })}</p>`
        : nothing
    }
    ${
      digest
        ? [
            shares("origin", gettext("Origin"), digest.by_origin, results.condition.origin),
            shares("reason", gettext("Reason"), digest.by_reason, results.condition.reason),
          ]
        : nothing
    }
    ${digest?.stopped ? html`<p class="quiet">${gettext("Counts of the first {scanned} messages.", { scanned: count(digest.scanned) })}</p>` : nothing}
  </div>`;
}

function shares(name: "origin" | "reason", label: string, counts: Record<string, number>, chosen?: string): TemplateResult | typeof nothing {
  const entries = Object.entries(counts);
  if (entries.length === 0) return nothing;
  return html`<p class="shares">
    <span class="quiet">${label}</span>
    ${entries.slice(0, NAMED).map(
      ([value, number]) => html`<button
        type="button" class="share" aria-pressed=${chosen === value}
        title=${chosen === value ? gettext("Show all") : gettext("Show only these")}
        @click=${() => pageAddress.go({ q: toggled(pageAddress.get("q"), name, value), after: "", message: "" })}
      >${value || gettext("none")} <span class="num">${count(number)}</span></button>`,
    )}
    ${entries.length > NAMED ? html`<span class="quiet">${gettext("and {more} more", { more: entries.length - NAMED })}</span>` : nothing}
  </p>`;
}
