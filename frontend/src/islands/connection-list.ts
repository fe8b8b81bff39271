import { html, nothing, type TemplateResult } from "lit";
import { repeat } from "lit/directives/repeat.js";
import { Polling } from "../live/polling.ts";
import { read } from "../live/requests.ts";
import { connectionPage } from "../pages.ts";
import type { Change } from "../page-address.ts";
import { gettext, ngettext } from "../gettext.ts";
import { signOfConnection, nameOf, protocolOf, type Connection } from "../view/connection.ts";
import { NONE, count, duration, rate } from "../view/format.ts";
import { heading } from "../view/heading.ts";
import { moment } from "../view/moment.ts";
import { signView } from "../view/sign.ts";
import { Island } from "./island.ts";
import "../style/connections.css";
import { pageAddress } from "../services.ts";
import { iconView } from "../view/icon.ts";

const EVERY_MS = 2_000;
const ROWS = 100;

interface Flapping {
  user: string;
  client: string;
  machine: string;
  connects: number;
  last_at: string;
  last_reason: string;
}

interface Answer {
  items: Connection[];
  next: string | null;
  approx_total: number;
  all: number;
  flapping: Flapping[];
  complete: boolean;
}

interface Column {
  key: string;
  label: string;
  sort?: string;
  numeric?: boolean;
  hint?: string;
  cell: (connection: Connection) => unknown;
}

const OPEN: Column[] = [
  { key: "state", label: gettext("state"), cell: (one) => signView(signOfConnection(one)) },
  { key: "user", label: gettext("user"), sort: "user", cell: ({ user }) => user },
  { key: "machine", label: gettext("host"), cell: ({ address }) => address ?? NONE },
  { key: "protocol", label: gettext("protocol"), sort: "protocol", cell: protocolOf },
  { key: "since", label: gettext("since"), sort: "since", cell: ({ since }) => moment(since) },
  { key: "in", label: gettext("in/s"), sort: "in_rate", numeric: true, hint: gettext("frames per second"), cell: (row) => rate(row.in_rate) },
  { key: "out", label: gettext("out/s"), sort: "out_rate", numeric: true, hint: gettext("frames per second"), cell: (row) => rate(row.out_rate) },
  { key: "subscriptions", label: gettext("subscriptions"), sort: "subscriptions", numeric: true, cell: (row) => count(row.subscriptions) },
  { key: "unsettled", label: gettext("unsettled"), sort: "unsettled", numeric: true, cell: (row) => count(row.unsettled) },
  { key: "silent", label: gettext("last received"), sort: "idle_s", numeric: true, cell: lastReceived },
];
const CLOSED: Column[] = [
  { key: "user", label: gettext("user"), sort: "user", cell: ({ user }) => user },
  { key: "machine", label: gettext("host"), cell: ({ address }) => address ?? NONE },
  { key: "since", label: gettext("since"), sort: "since", cell: ({ since }) => moment(since) },
  { key: "closed", label: gettext("disconnected"), sort: "closed_at", cell: ({ closed_at }) => (closed_at ? moment(closed_at) : NONE) },
  { key: "reason", label: gettext("reason"), cell: ({ reason }) => reason },
];

/** The time since the last frame and the heart-beat interval; late heart-beats are marked. */
function lastReceived({ idle_s, heart_beat_in_s }: Connection): TemplateResult {
  const late = heart_beat_in_s > 0 && idle_s > 1.5 * heart_beat_in_s;
  const title = heart_beat_in_s > 0 ? gettext("heart-beat interval: {span}", { span: duration(heart_beat_in_s) }) : gettext("no heart-beats");
  return html`<span title=${title}>${late ? html`<span class="late" role="img" aria-label=${gettext("late")}>${iconView("triangle-alert")}</span> ` : nothing}${duration(idle_s)}</span>`;
}

/** Current clients, or those of the last 24 hours. Filter, order and page are in the address and evaluated by the broker. */
export class ConnectionList extends Island {
  readonly #polling = new Polling<Answer>(
    this,
    () => this.#read(),
    EVERY_MS,
    () => ["$mom.conn.>"],
  );
  #order: string[] = [];
  #unwatch: (() => void) | undefined;

  override connectedCallback(): void {
    super.connectedCallback();
    this.#unwatch = pageAddress.watch(() => this.#addressChanged());
  }

  override disconnectedCallback(): void {
    super.disconnectedCallback();
    this.#unwatch?.();
  }

  #read(): Promise<Answer> {
    const [state, filter, sort, after] = ["state", "filter", "sort", "after"].map((name) => pageAddress.get(name));
    return read("connections", { state, filter, sort, after, limit: ROWS });
  }

  /** Change the address, and go to the first page. */
  #go(change: Change, options = {}): void {
    pageAddress.go({ after: null, ...change }, options);
  }

  #addressChanged(): void {
    this.#order = [];
    this.#polling.again();
    this.requestUpdate();
  }

  get #shown(): "open" | "closed" {
    return pageAddress.get("state") === "closed" ? "closed" : "open";
  }

  protected override render() {
    const { answer, fault } = this.#polling;
    if (answer === undefined && !fault) return skeleton();
    return html`
      ${this.#tools(answer)}
      ${
        fault
          ? html`<p class="notice" data-tone=${answer ? "warn" : "bad"} role="status">
            ${answer ? gettext("The values shown are not up to date: {fault}", { fault }) : fault}
            <button type="button" class="link" @click=${() => this.#polling.again()}>${gettext("Try again")}</button>
          </p>`
          : nothing
      }
      ${answer ? html`${this.#flapping(answer.flapping)}${this.#body(answer, fault !== "")}` : nothing}
    `;
  }

  #tools(answer: Answer | undefined): TemplateResult {
    const found = answer === undefined ? "" : ngettext("{count} client", "{count} clients", answer.approx_total);
    return html`<div class="tools sought">
      <label class="filter">${iconView("search")}
        <input
          type="search"
          aria-label=${gettext("Filter by user, client-id, service, address or id")}
          placeholder=${gettext("filter: user, client, address")}
          autocomplete="off"
          spellcheck="false"
          .value=${pageAddress.get("filter")}
          @input=${(event: InputEvent) => this.#go({ filter: (event.target as HTMLInputElement).value }, { replace: true })}
        />
      </label>
      <div class="segments" role="group" aria-label=${gettext("State")}>
        ${[["", gettext("connected")] as const, ["closed", gettext("disconnected in the last 24 hours")] as const].map(
          ([name, label]) =>
            html`<button type="button" aria-pressed=${this.#shown === (name || "open")} @click=${() => this.#go({ state: name, sort: "" })}>${label}</button>`,
        )}
      </div>
      <span class="quiet" role="status">
        ${answer && answer.approx_total < answer.all ? gettext("{found} of {all}", { found, all: count(answer.all) }) : found}${
          answer && !answer.complete ? html` · ${gettext("Only your own connections; administrators see all.")}` : nothing
        }
      </span>
    </div>`;
  }

  #flapping(clients: Flapping[]): TemplateResult | typeof nothing {
    if (clients.length === 0) return nothing;
    return html`<section class="flapping notice" data-tone="warn" aria-label=${gettext("Clients that reconnect frequently")}>
      <strong>${iconView("triangle-alert")} ${ngettext("{count} client is flapping", "{count} clients are flapping", clients.length)}</strong>
      <ul>
        ${clients.map(
          (client) => html`<li>
            <button type="button" class="link" @click=${() => this.#go({ filter: client.client || `${client.user} ${client.machine}` })}>
              ${client.client || client.user}
            </button>
            ${client.machine}:
            ${ngettext("{count} login in 5 minutes", "{count} logins in 5 minutes", client.connects)}${
              client.last_reason ? html`; ${gettext("last disconnect: {reason}", { reason: client.last_reason })}` : nothing
            }
          </li>`,
        )}
      </ul>
    </section>`;
  }

  #body(answer: Answer, old: boolean): TemplateResult {
    if (answer.all === 0) return this.#none();
    if (answer.items.length === 0) {
      return html`<div class="empty">
        ${iconView("search")}
        <p>${gettext("No client matches the filter. {count} clients in total.", { count: count(answer.all) })}</p>
        <button type="button" @click=${() => this.#go({ filter: "" })}>${gettext("Clear filter")}</button>
      </div>`;
    }
    const columns = this.#shown === "open" ? OPEN : CLOSED;
    return html`<table class="list connections" data-old=${old ? "true" : nothing}>
        <caption class="visually-hidden">${gettext("Connections")}</caption>
        <thead>
          <tr>
            ${this.#heading({ key: "name", label: gettext("client"), sort: "client", cell: nameOf })}
            ${columns.map((column) => this.#heading(column))}
          </tr>
        </thead>
        <tbody>
          ${repeat(
            this.#inPlace(answer.items),
            ({ id }) => id,
            (row) => this.#row(row, columns),
          )}
        </tbody>
      </table>
      ${this.#pages(answer)}`;
  }

  /** Rows keep their place under the pointer; newcomers come last until another order is asked for. */
  #inPlace(items: Connection[]): Connection[] {
    const byId = new Map(items.map((item) => [item.id, item]));
    const known = new Set(this.#order);
    this.#order = [...this.#order.filter((id) => byId.has(id)), ...items.map(({ id }) => id).filter((id) => !known.has(id))];
    return this.#order.map((id) => byId.get(id)!);
  }

  #heading({ key, label, sort, numeric, hint }: Column): TemplateResult {
    const sortable = this.#shown === "open" || ["user", "since", "closed_at"].includes(sort ?? "");
    const column = { name: `col-${key}`, label, sort: sortable ? sort : undefined, numeric, hint };
    return heading(column, pageAddress.get("sort"), (next) => this.#go({ sort: next }));
  }

  #row(row: Connection, columns: Column[]): TemplateResult {
    return html`<tr>
      <th scope="row"><a href=${connectionPage(row.id)}>${nameOf(row)}</a>${row.service === null ? nothing : html` <span class="tag" title=${gettext("registered as service {name}", { name: row.service })}>${row.service}</span>`}</th>
      ${columns.map(({ key, numeric, label, cell }) => {
        const shown = cell(row);
        return html`<td class="col-${key} ${numeric ? "num" : ""} ${shown === "0" ? "zero" : ""}" data-label=${label}>${shown}</td>`;
      })}
    </tr>`;
  }

  #pages(answer: Answer): TemplateResult | typeof nothing {
    const after = pageAddress.get("after");
    if (!after && answer.next === null) return nothing;
    return html`<nav class="tools more" aria-label=${gettext("Pages")}>
      ${after ? html`<button type="button" @click=${() => this.#go({ after: "" })}>${gettext("First page")}</button>` : nothing}
      ${answer.next !== null ? html`<button type="button" @click=${() => this.#go({ after: answer.next! })}>${gettext("Next page")}</button>` : nothing}
    </nav>`;
  }

  #none(): TemplateResult {
    const closed = this.#shown === "closed";
    return html`<div class="empty">
      ${iconView("plug-zap")}
      <p>
        ${
          closed
            ? gettext("No client disconnected in the last 24 hours. The events of a client are kept for a day after it disconnects.")
            : gettext("No clients are connected. The page of each queue has example code under “Connect”.")
        }
      </p>
    </div>`;
  }
}

function skeleton(): TemplateResult {
  return html`<div class="skeleton" role="status">
    <span class="visually-hidden">${gettext("Loading connections")}</span>
    ${Array.from({ length: 6 }, () => html`<div></div>`)}
  </div>`;
}

customElements.define("mom-connection-list", ConnectionList);
