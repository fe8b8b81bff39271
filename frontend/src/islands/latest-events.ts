import { html } from "lit";
import { repeat } from "lit/directives/repeat.js";
import { Polling } from "../live/polling.ts";
import { read } from "../live/requests.ts";
import { gettext } from "../gettext.ts";
import { aboutOf, detailOf, type LoggedEvent } from "../view/event.ts";
import { moment } from "../view/moment.ts";
import { Island } from "./island.ts";

const SHOWN = 10;
const EVERY_MS = 30_000;

/** The latest events. */
export class LatestEvents extends Island {
  static override properties = { labels: { type: Object } };

  /** Of events that are not shown by their names. */
  declare labels: Record<string, string>;

  readonly #polling = new Polling<{ items: LoggedEvent[] }>(
    this,
    () => read("events", { limit: SHOWN }),
    EVERY_MS,
    () => ["$mom.event"],
  );

  protected override render() {
    const { answer, fault, refused } = this.#polling;
    if (refused) return html`<p class="inside quiet">${gettext("Only administrators can see the event log.")}</p>`;
    if (answer === undefined) {
      return fault
        ? html`<p class="notice" data-tone="warn" role="status">${fault}
            <button type="button" class="link" @click=${() => this.#polling.again()}>${gettext("Try again")}</button></p>`
        : html`<div class="inside skeleton" role="status"><div></div><div></div><div></div></div>`;
    }
    if (answer.items.length === 0) {
      return html`<p class="inside quiet">${gettext("No events of bridges or files since the broker started.")}</p>`;
    }
    return html`<div class="inside"><ol class="story">
      ${repeat(
        answer.items,
        ({ id }) => id,
        (event) => {
          const detail = detailOf(event);
          return html`<li data-tone=${event.code ? "bad" : "quiet"}>
            ${moment(event.at)}
            <span><a href=${aboutOf(event)}>${event.name}</a> ${this.labels[event.event] ?? event.event}${detail ? `: ${detail}` : ""}</span>
          </li>`;
        },
      )}
    </ol></div>`;
  }
}

customElements.define("mom-latest-events", LatestEvents);
