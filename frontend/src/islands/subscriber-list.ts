import { html, nothing, type TemplateResult } from "lit";
import { repeat } from "lit/directives/repeat.js";
import { gettext } from "../gettext.ts";
import { Polling } from "../live/polling.ts";
import { read } from "../live/requests.ts";
import { pageOf } from "../pages.ts";
import { NONE, count } from "../view/format.ts";
import { heading, type Heading } from "../view/heading.ts";
import { moment } from "../view/moment.ts";
import { nameOf } from "../view/name.ts";
import { polled } from "../view/polled.ts";
import { Island } from "./island.ts";

const EVERY_MS = 2_000;
const ROWS = 200;

interface Subscriber {
  id: string;
  user: string;
  address: string;
  transport: "websocket" | "sse";
  mode: "deliver" | "notify";
  source: string;
  since: string;
  events: number;
  last_at: string | null;
  pending: number | null;
}

interface Answer {
  items: Subscriber[];
  approx_total: number;
}

const TRANSPORTS = { websocket: gettext("JSON over WebSocket"), sse: gettext("event stream") };
const HEADINGS: Heading[] = [
  { label: gettext("source"), sort: "name" },
  { label: gettext("mode"), sort: "mode" },
  { label: gettext("transport"), sort: "transport" },
  { label: gettext("user"), sort: "user" },
  { label: gettext("host") },
  { label: gettext("since"), sort: "since" },
  { label: gettext("events"), sort: "events", numeric: true, hint: gettext("messages or notifications so far") },
  { label: gettext("last event") },
  { label: gettext("pending"), sort: "pending", numeric: true, hint: gettext("messages that wait in the queue") },
];

/** Who is called over an open connection now. */
export class SubscriberList extends Island {
  #sort = "";
  readonly #polling = new Polling<Answer>(this, () => read("subscribers", { sort: this.#sort, limit: ROWS }), EVERY_MS);

  protected override render() {
    return polled(this.#polling, ({ items, approx_total }, old) => (items.length === 0 ? none() : this.#table(items, approx_total, old)));
  }

  #table(items: Subscriber[], total: number, old: boolean): TemplateResult {
    return html`<table class="resources subscribers" data-old=${old ? "true" : nothing}>
        <caption class="visually-hidden">${gettext("Live subscribers")}</caption>
        <thead>
          <tr>
            ${HEADINGS.map((one) => heading(one, this.#sort, (sort) => this.#order(sort)))}
          </tr>
        </thead>
        <tbody>
          ${repeat(items, ({ id }) => id, row)}
        </tbody>
      </table>
      ${items.length < total ? html`<p class="quiet more">${gettext("Showing the first {shown} of {all}.", { shown: count(items.length), all: count(total) })}</p>` : nothing}`;
  }

  #order(sort: string): void {
    this.#sort = sort;
    this.#polling.again();
  }
}

function row({ id, source, mode, transport, user, address, since, events, last_at, pending }: Subscriber): TemplateResult {
  return html`<tr data-row=${id}>
    <th scope="row"><a href=${pageOf(source)}>${nameOf(source)}</a></th>
    <td data-label=${gettext("mode")}>${mode}</td>
    <td data-label=${gettext("transport")}>${TRANSPORTS[transport]}</td>
    <td data-label=${gettext("user")}>${user}</td>
    <td data-label=${gettext("host")}>${address || NONE}</td>
    <td data-label=${gettext("since")}>${moment(since)}</td>
    <td data-label=${gettext("events")} class="num">${count(events)}</td>
    <td data-label=${gettext("last event")}>${last_at === null ? NONE : moment(last_at)}</td>
    <td data-label=${gettext("pending")} class="num">${pending === null ? NONE : count(pending)}</td>
  </tr>`;
}

function none(): TemplateResult {
  return html`<div class="empty">
    <p>${gettext("No program is called over an open connection. Programs subscribe with JSON over WebSocket, or read the event stream of a queue.")}</p>
  </div>`;
}

customElements.define("mom-subscriber-list", SubscriberList);
