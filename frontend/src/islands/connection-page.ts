import { html, nothing, type TemplateResult } from "lit";
import { confirmAction } from "../confirm-dialog.ts";
import { Polling } from "../live/polling.ts";
import { request, errorText, read } from "../live/requests.ts";
import { pageOf, servicesPage } from "../pages.ts";
import { gettext, ngettext } from "../gettext.ts";
import { showToast } from "../toasts.ts";
import { listOf, nameOf, protocolOf, signOfConnection, type ClientEvent, type ClientList, type Connection, type Consumer } from "../view/connection.ts";
import { NONE, bytes, count, duration, rate } from "../view/format.ts";
import { moment } from "../view/moment.ts";
import { nameOf as destinationName } from "../view/name.ts";
import { verdictOfConnection } from "../view/verdict.ts";
import { signIn, signView } from "../view/sign.ts";
import { CLIENT_EVENT_NAME } from "../generated/signs/client-event-name.ts";
import { Island } from "./island.ts";
import { iconView } from "../view/icon.ts";
import { refusal } from "../view/refusal.ts";

const EVERY_MS = 2_000;

type Details = Connection & ClientList & { consumers: Consumer[] };

interface Answer {
  connection: Details;
  events: ClientEvent[];
  dropped: number;
}

/** One client: values, subscriptions and events, also for a day after it disconnects. */
export class ConnectionPage extends Island {
  static override properties = { connection: {}, admin: {} };
  declare connection: string;
  declare admin: string | null;

  readonly #polling = new Polling<Answer>(
    this,
    () => this.#read(),
    EVERY_MS,
    () => ["$mom.conn.>"],
  );

  protected override willUpdate(changed: Map<PropertyKey, unknown>): void {
    // The frame keeps the element when one client's page follows another's.
    if (changed.get("connection") !== undefined) this.#polling.restart();
  }

  /** The page was made before the client was known by more than its id. */
  protected override updated(): void {
    const { answer } = this.#polling;
    const heading = document.querySelector("main h1");
    if (answer !== undefined && heading !== null) heading.textContent = nameOf(answer.connection);
  }

  async #read(): Promise<Answer> {
    const path = `connections/${encodeURIComponent(this.connection)}`;
    const [connection, events] = await Promise.all([read<Answer["connection"]>(path), read<{ items: ClientEvent[]; approx_total: number }>(`${path}/events`)]);
    return { connection, events: events.items, dropped: events.approx_total - events.items.length };
  }

  protected override render() {
    const { answer, fault, refused } = this.#polling;
    if (answer === undefined) {
      if (!fault)
        return html`<div class="skeleton" role="status"><span class="visually-hidden">${gettext("Loading")}</span><div></div><div></div><div></div></div>`;
      return html`<p class="notice" data-tone="bad" role="alert">
        ${fault} ${refused ? nothing : html`<button type="button" class="link" @click=${() => this.#polling.again()}>${gettext("Try again")}</button>`}
      </p>`;
    }
    const { connection, events, dropped } = answer;
    return html`
      ${fault ? html`<p class="notice" data-tone="warn" role="status">${gettext("The values shown are not up to date: {fault}", { fault })}</p>` : nothing}
      <div class="tools standing">
        <p class="verdict">${signView(signOfConnection(connection))} <span>${verdictOfConnection(connection, connection.consumers)}</span>
          ${connection.closed_at === null ? nothing : html`<span class="quiet">${moment(connection.closed_at)}</span>`}</p>
        ${connection.closed_at === null ? html`<div class="tools">${this.#actions(connection)}</div>` : nothing}
      </div>
      <dl class="facts" data-old=${fault ? "true" : nothing}>
        ${this.#facts(connection).map(([label, value]) => html`<div><dt>${label}</dt><dd class="num">${value}</dd></div>`)}
      </dl>
      <div class="side-by-side">
        <section>
          <h2>${gettext("Client")}</h2>
          <dl class="pairs">
            ${this.#identity(connection).map(([label, value]) => html`<dt>${label}</dt><dd>${value}</dd>`)}
          </dl>
        </section>
        <section>
          <h2>${gettext("Events")}</h2>
          <ol class="timeline">
            ${events.map((event) => this.#event(event))}
          </ol>
          ${dropped > 0 ? html`<p class="quiet more">${ngettext("{count} event in between was discarded.", "{count} events in between were discarded.", dropped)}</p>` : nothing}
        </section>
      </div>
      ${connection.closed_at === null ? this.#subscriptions(connection.consumers) : nothing}
    `;
  }

  #facts(connection: Connection): [string, string][] {
    const now = (figure: string) => (connection.closed_at === null ? figure : NONE);
    return [
      [gettext("in/s"), now(rate(connection.in_rate))],
      [gettext("out/s"), now(rate(connection.out_rate))],
      [gettext("unsettled"), now(count(connection.unsettled))],
      [gettext("subscriptions"), now(count(connection.subscriptions))],
      [gettext("transactions"), now(count(connection.transactions))],
      [gettext("received"), bytes(connection.bytes_in)],
      [gettext("sent"), bytes(connection.bytes_out)],
      [gettext("last received"), now(duration(connection.idle_s))],
    ];
  }

  #identity(connection: Details): [string, unknown][] {
    const beat = (seconds: number) => (seconds ? duration(seconds) : gettext("none"));
    const list = listOf(connection);
    return [
      [gettext("user"), connection.user],
      [gettext("client-id"), connection.client || NONE],
      [gettext("service"), connection.service === null ? NONE : html`<a href=${servicesPage({ filter: connection.service })}>${connection.service}</a>`],
      [gettext("host"), connection.address ?? NONE],
      [gettext("protocol"), protocolOf(connection)],
      [gettext("since"), moment(connection.since)],
      [
        gettext("heart-beats"),
        gettext("from client {from}, to client {to}", { from: beat(connection.heart_beat_in_s), to: beat(connection.heart_beat_out_s) }),
      ],
      [gettext("frames"), gettext("{received} received, {sent} sent", { received: count(connection.frames_in), sent: count(connection.frames_out) })],
      ...(list === null ? [] : [[gettext("list of brokers"), list] as [string, unknown]]),
      [gettext("session"), connection.id],
    ];
  }

  #event(event: ClientEvent): TemplateResult {
    return html`<li>
      ${moment(event.at)}
      ${signView(signIn(CLIENT_EVENT_NAME, event.event))}
      ${event.code ? html`<span class="tag">${event.code}</span>` : nothing} ${event.detail}
      ${event.by ? html`<span class="quiet">${gettext("by {whom}", { whom: event.by })}</span>` : nothing}
      ${event.times > 1 ? html`<span class="tag">${ngettext("{count} time", "{count} times", event.times)}</span>` : nothing}
    </li>`;
  }

  #subscriptions(consumers: Consumer[]): TemplateResult {
    return html`<section class="flows">
      <h2>${gettext("Subscriptions")}</h2>
      ${
        consumers.length === 0
          ? html`<div class="empty"><p>${gettext("No subscriptions: the client only sends.")}</p></div>`
          : html`<table class="resources">
            <caption class="visually-hidden">${gettext("Subscriptions")}</caption>
            <thead>
              <tr>
                ${[gettext("destination"), gettext("id"), gettext("acknowledges"), gettext("selector")].map((label) => html`<th scope="col">${label}</th>`)}
                ${[gettext("credit"), gettext("unsettled"), gettext("delivered"), gettext("acknowledged"), gettext("returned"), gettext("waiting")].map(
                  (label) => html`<th scope="col" class="num">${label}</th>`,
                )}
              </tr>
            </thead>
            <tbody>
              ${consumers.map(
                (one) => html`<tr>
                  <th scope="row">
                    <a href=${pageOf(one.destination)}>${destinationName(one.destination)}</a>
                    ${one.slow_since ? html`<span class="state" data-tone="warn">${iconView("triangle-alert")} ${gettext("slow")}</span>` : nothing}
                    ${one.exclusive ? html`<span class="tag">${one.active ? gettext("exclusive") : gettext("standby")}</span>` : nothing}
                    ${one.priority ? html`<span class="tag">${gettext("priority {number}", { number: one.priority })}</span>` : nothing}
                  </th>
                  <td data-label=${gettext("id")}>${one.id}</td>
                  <td data-label=${gettext("acknowledges")}>${one.ack}</td>
                  <td data-label=${gettext("selector")} class=${one.selector ? "" : "nothing"}>${one.selector ? html`<code>${one.selector}</code>` : nothing}</td>
                  <td data-label=${gettext("credit")} class="num">${count(one.credit)}</td>
                  <td data-label=${gettext("unsettled")} class="num">${count(one.unsettled)}</td>
                  <td data-label=${gettext("delivered")} class="num">${count(one.delivered)}</td>
                  <td data-label=${gettext("acknowledged")} class="num">${count(one.acknowledged)}</td>
                  <td data-label=${gettext("returned")} class="num">${count(one.returned)}</td>
                  <td data-label=${gettext("waiting")} class="num">${count(one.waiting)}</td>
                </tr>`,
              )}
            </tbody>
          </table>`
      }
    </section>`;
  }

  #actions(connection: Connection): TemplateResult {
    const own = connection.user === document.body.dataset.user;
    const hint =
      refusal() ?? (own || this.admin !== null ? "" : gettext("requires the right administer: the connection belongs to {user}", { user: connection.user }));
    return html`<button type="button" ?disabled=${hint !== ""} title=${hint || nothing} @click=${() => this.#drain(connection)}>${gettext("Drain connection…")}</button>
      <button type="button" ?disabled=${hint !== ""} title=${hint || nothing} @click=${() => this.#close(connection)}>${gettext("Close connection…")}</button>`;
  }

  async #close(connection: Connection): Promise<void> {
    const held = ngettext(
      "{count} unsettled message is returned to its queue.",
      "{count} unsettled messages are returned to their queues.",
      connection.unsettled,
    );
    const answer = await confirmAction({
      title: gettext("Close the connection of {name}", { name: nameOf(connection) }),
      effect: gettext("The client receives the reason and can connect again. {held}", { held }),
      button: gettext("Close"),
      danger: true,
      fields: reasonField(gettext("an operator closed the connection")),
      typed: nameOf(connection),
    });
    if (answer === null) return;
    const reason = String(answer.fields.get("shown_reason"));
    await this.#do(gettext("The connection of {name} was closed: {reason}", { name: nameOf(connection), reason }), () =>
      request("DELETE", `connections/${encodeURIComponent(connection.id)}`, { reason }, answer.reason),
    );
  }

  async #drain(connection: Connection): Promise<void> {
    const answer = await confirmAction({
      title: gettext("Drain the connection of {name}", { name: nameOf(connection) }),
      effect: gettext(
        "The client receives no new messages. The connection is closed when its {count} unsettled messages are settled and its transactions have ended, or after the time limit.",
        { count: connection.unsettled },
      ),
      button: gettext("Drain"),
      fields: html`${reasonField(gettext("an operator drained the connection"))}
        <label>${gettext("Time limit in seconds")}<input name="within" type="number" min="0" max="600" value="30" required /></label>`,
    });
    if (answer === null) return;
    const body = { reason: String(answer.fields.get("shown_reason")), within_s: Number(answer.fields.get("within")) };
    await this.#do(gettext("The connection of {name} is being drained.", { name: nameOf(connection) }), () =>
      request("POST", `connections/${encodeURIComponent(connection.id)}/drain`, body, answer.reason),
    );
  }

  async #do(text: string, action: () => Promise<unknown>): Promise<void> {
    try {
      await action();
      showToast({ text, tone: "good" });
    } catch (fault) {
      showToast({ text: errorText(fault), tone: "bad" });
    }
    this.#polling.again();
  }
}

function reasonField(text: string): TemplateResult {
  return html`<label>${gettext("Reason shown to the client")}<input name="shown_reason" required maxlength="500" value=${text} autocomplete="off" /></label>`;
}

customElements.define("mom-connection-page", ConnectionPage);
