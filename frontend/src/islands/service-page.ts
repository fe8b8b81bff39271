import { html, nothing, type TemplateResult } from "lit";
import type { PendingState } from "../generated/tables.ts";
import { gettext, ngettext } from "../gettext.ts";
import { Polling } from "../live/polling.ts";
import { read } from "../live/requests.ts";
import { connectionPage, consolePage, pageOf } from "../pages.ts";
import { NONE, count, fullTime } from "../view/format.ts";
import { moment } from "../view/moment.ts";
import { polled } from "../view/polled.ts";
import { activityOf, linkOf, serviceActions, type Service } from "../view/service.ts";
import { signIn, signView } from "../view/sign.ts";
import { PENDING_STATE } from "../generated/signs/pending-state.ts";
import { Island } from "./island.ts";

const EVERY_MS = 2_000;
/** Rows of the list of pending messages. */
const ROWS = 200;

interface Pending {
  seq: number;
  id: string;
  state: PendingState;
}

interface Answer {
  service: Service;
  /** The messages that wait at its origin, or are held; none without an origin. */
  pending: Pending[];
}

/** One service: properties, messages that wait for it, and actions. */
export class ServicePage extends Island {
  static override properties = { service: {}, admin: {} };
  /** The id of its registration. */
  declare service: string;
  declare admin: string | null;

  readonly #polling = new Polling<Answer>(
    this,
    () => this.#read(),
    EVERY_MS,
    () => ["$mom.conn.>"],
  );

  protected override willUpdate(changed: Map<PropertyKey, unknown>): void {
    // The frame keeps the element when one service's page follows another's.
    if (changed.get("service") !== undefined) this.#polling.restart();
  }

  async #read(): Promise<Answer> {
    const path = `services/${encodeURIComponent(this.service)}`;
    const service = await read<Service>(path);
    const pending = service.origin === null ? [] : (await read<{ items: Pending[] }>(`${path}/pending`)).items;
    return { service, pending };
  }

  protected override render() {
    if (this.#polling.refused) return this.#ended();
    return polled(
      this.#polling,
      ({ service, pending }, old) => html`
      <div class="tools standing">
        ${activityOf(service)}
        <strong>${service.name}</strong>
        <span class="spring"></span>
        ${serviceActions(service, this.admin !== null, () => this.#polling.again())}
      </div>
      <dl class="pairs" data-old=${old ? "true" : nothing}>
        ${facts(service).map(([label, value]) => html`<dt>${label}</dt><dd>${value}</dd>`)}
      </dl>
      ${service.origin === null ? inQueue(service) : atOrigin(pending)}
    `,
    );
  }

  #ended(): TemplateResult {
    return html`<div class="empty">
      <p>${gettext("Service {id} is not registered: its program ended, did not renew its lease, or was deregistered.", { id: this.service })}</p>
      <a class="button" href=${consolePage("services/")}>${gettext("All services")}</a>
    </div>`;
  }
}

function facts(service: Service): [string, unknown][] {
  const { user, machine, type, events, callbacks, transport, connection, since, lease_until, origin } = service;
  return [
    [gettext("user"), user],
    [gettext("machine"), machine || NONE],
    [gettext("type"), type || NONE],
    [gettext("events"), events.length === 0 ? NONE : events.join(", ")],
    [gettext("callbacks"), callbacks ? gettext("a callback broker may serve it") : gettext("no callback broker may serve it")],
    [gettext("transport"), transport],
    [gettext("connection"), connection === null ? NONE : transport === "stomp" ? html`<a href=${connectionPage(connection)}>${connection}</a>` : connection],
    [gettext("since"), moment(since)],
    [gettext("ends"), lease_until === null ? gettext("with its connection") : gettext("{time}, unless it renews its lease", { time: fullTime(lease_until) })],
    [gettext("origin, link"), origin === null ? NONE : html`<code>${origin.url}</code> ${linkOf(origin)}`],
  ];
}

function inQueue({ name, pending }: Service): TemplateResult {
  const queue = `/queue/${name}`;
  return html`<section>
    <h2>${gettext("Pending messages")}</h2>
    <p>
      ${ngettext("{count} message waits in its queue.", "{count} messages wait in its queue.", pending)}
      <a href=${pageOf(queue, "messages")}>${gettext("Messages of {queue}", { queue })}</a>
    </p>
  </section>`;
}

function atOrigin(pending: Pending[]): TemplateResult {
  const shown = pending.slice(0, ROWS);
  return html`<section>
    <h2>${gettext("Pending messages")}</h2>
    ${
      pending.length === 0
        ? html`<div class="empty"><p>${gettext("No message waits at the origin.")}</p></div>`
        : html`<table class="resources">
          <caption class="visually-hidden">${gettext("Messages at the origin, in the order of their arrival")}</caption>
          <thead>
            <tr>
              <th scope="col">${gettext("message")}</th>
              <th scope="col" class="num">${gettext("number")}</th>
              <th scope="col">${gettext("state")}</th>
            </tr>
          </thead>
          <tbody>
            ${shown.map(({ id, seq, state }) => {
              return html`<tr data-row=${id}>
                <th scope="row"><code>${id}</code></th>
                <td data-label=${gettext("number")} class="num">${count(seq)}</td>
                <td data-label=${gettext("state")}>${signView(signIn(PENDING_STATE, state))}</td>
              </tr>`;
            })}
          </tbody>
        </table>`
    }
    ${shown.length < pending.length ? html`<p class="quiet more">${gettext("Showing the first {shown} of {all}.", { shown: count(shown.length), all: count(pending.length) })}</p>` : nothing}
  </section>`;
}

customElements.define("mom-service-page", ServicePage);
