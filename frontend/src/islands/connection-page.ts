import { html, nothing, type TemplateResult } from "lit";
import { ask } from "../asking.ts";
import { Polling } from "../live/polling.ts";
import { act, inWords, read } from "../live/requests.ts";
import { pageOf } from "../pages.ts";
import { say, sayCount } from "../say.ts";
import { tell } from "../toasts.ts";
import { conditionOf, nameOf, protocolOf, type ClientEvent, type Connection, type Consumer } from "../view/connection.ts";
import { NONE, bytes, count, duration, rate } from "../view/format.ts";
import { moment } from "../view/moment.ts";
import { nameOf as destinationName } from "../view/name.ts";
import { Island } from "./island.ts";

const EVERY_MS = 2_000;
const BAD = new Set(["refused", "disconnecting"]);
const WARN = new Set(["slow", "draining"]);

/** What a client is called in the events that happen to it. */
const WORDS: Record<string, string> = {
  connected: say("connected"),
  subscribed: say("subscribed"),
  unsubscribed: say("unsubscribed"),
  slow: say("slow"),
  recovered: say("reads messages again"),
  refused: say("refused"),
  draining: say("drained"),
  disconnecting: say("closed by an operator"),
  closed: say("disconnected"),
};

interface Answer {
  connection: Connection & { consumers: Consumer[] };
  events: ClientEvent[];
  dropped: number;
}

/** One client: its figures, its subscriptions, and what happened to it, also for a day after it has gone. */
export class ConnectionPage extends Island {
  static override properties = { connection: {}, admin: {} };
  declare connection: string;
  declare admin: string | null;

  readonly #polling = new Polling<Answer>(this, () => this.#read(), EVERY_MS, () => ["$mom.conn.>"]);

  protected override willUpdate(changed: Map<PropertyKey, unknown>): void {
    // The frame keeps the element when one client's page follows another's.
    if (changed.get("connection") !== undefined) this.#polling.anew();
  }

  async #read(): Promise<Answer> {
    const path = `connections/${encodeURIComponent(this.connection)}`;
    const [connection, events] = await Promise.all([
      read<Answer["connection"]>(path),
      read<{ items: ClientEvent[]; approx_total: number }>(`${path}/events`),
    ]);
    return { connection, events: events.items, dropped: events.approx_total - events.items.length };
  }

  protected override render() {
    const { answer, fault, refused } = this.#polling;
    if (answer === undefined) {
      if (!fault) return html`<div class="skeleton" role="status"><span class="visually-hidden">${say("Loading")}</span><div></div><div></div><div></div></div>`;
      return html`<p class="notice" data-tone="bad" role="alert">
        ${fault} ${refused ? nothing : html`<button type="button" class="link" @click=${() => this.#polling.again()}>${say("Try again")}</button>`}
      </p>`;
    }
    const { connection, events, dropped } = answer;
    return html`
      ${fault ? html`<p class="notice" data-tone="warn" role="status">${say("The values shown are not up to date: {fault}", { fault })}</p>` : nothing}
      <div class="tools standing">
        ${conditionOf(connection)}
        <span class="quiet">${nameOf(connection)}</span>
        ${connection.closed_at !== null
          ? html`<span class="quiet">${moment(connection.closed_at)}: ${connection.reason}</span>`
          : html`<span class="spring"></span>${this.#acts(connection)}`}
      </div>
      <dl class="facts" data-old=${fault ? "true" : nothing}>
        ${this.#facts(connection).map(([label, value]) => html`<div><dt>${label}</dt><dd class="num">${value}</dd></div>`)}
      </dl>
      <div class="beside">
        <section>
          <h2>${say("Client")}</h2>
          <dl class="pairs">
            ${this.#identity(connection).map(([label, value]) => html`<dt>${label}</dt><dd>${value}</dd>`)}
          </dl>
        </section>
        <section>
          <h2>${say("Events")}</h2>
          <ol class="timeline">
            ${events.map((event) => this.#event(event))}
          </ol>
          ${dropped > 0 ? html`<p class="quiet more">${sayCount("{count} event in between was discarded.", "{count} events in between were discarded.", dropped)}</p>` : nothing}
        </section>
      </div>
      ${connection.closed_at === null ? this.#subscriptions(connection.consumers) : nothing}
    `;
  }

  #facts(connection: Connection): [string, string][] {
    return [
      [say("in/s"), rate(connection.in_rate)],
      [say("out/s"), rate(connection.out_rate)],
      [say("unsettled"), count(connection.unsettled)],
      [say("subscriptions"), count(connection.subscriptions)],
      [say("transactions"), count(connection.transactions)],
      [say("received"), bytes(connection.bytes_in)],
      [say("sent"), bytes(connection.bytes_out)],
      [say("last received"), connection.closed_at === null ? duration(connection.silent_s) : NONE],
    ];
  }

  #identity(connection: Connection): [string, unknown][] {
    const beat = (seconds: number) => (seconds ? duration(seconds) : say("none"));
    return [
      [say("user"), connection.user],
      [say("client-id"), connection.client || NONE],
      [say("host"), connection.address ?? NONE],
      [say("protocol"), protocolOf(connection)],
      [say("since"), moment(connection.since)],
      [say("heart-beats"), say("from client {from}, to client {to}", { from: beat(connection.heart_beat_in_s), to: beat(connection.heart_beat_out_s) })],
      [say("frames"), say("{received} received, {sent} sent", { received: count(connection.frames_in), sent: count(connection.frames_out) })],
      [say("session"), connection.id],
    ];
  }

  #event(event: ClientEvent): TemplateResult {
    const tone = BAD.has(event.event) ? "bad" : WARN.has(event.event) ? "warn" : "quiet";
    const shape = tone === "bad" ? "■" : tone === "warn" ? "▲" : "●";
    return html`<li>
      ${moment(event.at)}
      <span class="state" data-tone=${tone}><span aria-hidden="true">${shape}</span> ${WORDS[event.event] ?? event.event}</span>
      ${event.code ? html`<span class="tag">${event.code}</span>` : nothing} ${event.detail}
      ${event.by ? html`<span class="quiet">${say("by {whom}", { whom: event.by })}</span>` : nothing}
      ${event.times > 1 ? html`<span class="tag">${sayCount("{count} time", "{count} times", event.times)}</span>` : nothing}
    </li>`;
  }

  #subscriptions(consumers: Consumer[]): TemplateResult {
    return html`<section class="flows">
      <h2>${say("Subscriptions")}</h2>
      ${consumers.length === 0
        ? html`<div class="empty"><p>${say("No subscriptions: the client only sends.")}</p></div>`
        : html`<table class="things">
            <caption class="visually-hidden">${say("Subscriptions")}</caption>
            <thead>
              <tr>
                ${[say("destination"), say("id"), say("acknowledges"), say("selector")].map((label) => html`<th scope="col">${label}</th>`)}
                ${[say("credit"), say("unsettled"), say("delivered"), say("acknowledged"), say("returned"), say("waiting")].map(
                  (label) => html`<th scope="col" class="num">${label}</th>`,
                )}
              </tr>
            </thead>
            <tbody>
              ${consumers.map(
                (one) => html`<tr>
                  <th scope="row">
                    <a href=${pageOf(one.destination)}>${destinationName(one.destination)}</a>
                    ${one.slow_since ? html`<span class="state" data-tone="warn"><span aria-hidden="true">▲</span> ${say("slow")}</span>` : nothing}
                    ${one.exclusive ? html`<span class="tag">${one.active ? say("exclusive") : say("standby")}</span>` : nothing}
                  </th>
                  <td data-label=${say("id")}>${one.id}</td>
                  <td data-label=${say("acknowledges")}>${one.ack}</td>
                  <td data-label=${say("selector")} class=${one.selector ? "" : "nothing"}>${one.selector ? html`<code>${one.selector}</code>` : nothing}</td>
                  <td data-label=${say("credit")} class="num">${count(one.credit)}</td>
                  <td data-label=${say("unsettled")} class="num">${count(one.unsettled)}</td>
                  <td data-label=${say("delivered")} class="num">${count(one.delivered)}</td>
                  <td data-label=${say("acknowledged")} class="num">${count(one.acknowledged)}</td>
                  <td data-label=${say("returned")} class="num">${count(one.returned)}</td>
                  <td data-label=${say("waiting")} class="num">${count(one.waiting)}</td>
                </tr>`,
              )}
            </tbody>
          </table>`}
    </section>`;
  }

  #acts(connection: Connection): TemplateResult {
    const own = connection.user === document.body.dataset.user;
    const hint = own || this.admin !== null ? "" : say("requires the right administer: the connection belongs to {user}", { user: connection.user });
    return html`<button type="button" ?disabled=${hint !== ""} title=${hint || nothing} @click=${() => this.#drain(connection)}>${say("Drain connection…")}</button>
      <button type="button" data-tone="bad" ?disabled=${hint !== ""} title=${hint || nothing} @click=${() => this.#close(connection)}>${say("Close connection…")}</button>`;
  }

  async #close(connection: Connection): Promise<void> {
    const held = sayCount("{count} unsettled message is returned to its queue.", "{count} unsettled messages are returned to their queues.", connection.unsettled);
    const answer = await ask({
      title: say("Close the connection of {name}", { name: nameOf(connection) }),
      effect: say("The client receives the reason and can connect again. {held}", { held }),
      act: say("Close"),
      danger: true,
      fields: told(say("an operator closed the connection")),
      typed: nameOf(connection),
    });
    if (answer === null) return;
    const reason = String(answer.fields.get("told"));
    await this.#do(say("The connection of {name} was closed: {reason}", { name: nameOf(connection), reason }), () =>
      act("DELETE", `connections/${encodeURIComponent(connection.id)}`, { reason }, answer.reason),
    );
  }

  async #drain(connection: Connection): Promise<void> {
    const answer = await ask({
      title: say("Drain the connection of {name}", { name: nameOf(connection) }),
      effect: say("The client receives no new messages. The connection is closed when its {count} unsettled messages are settled and its transactions have ended, or after the time limit.", { count: connection.unsettled }),
      act: say("Drain"),
      fields: html`${told(say("an operator drained the connection"))}
        <label>${say("Time limit in seconds")}<input name="within" type="number" min="0" max="600" value="30" required /></label>`,
    });
    if (answer === null) return;
    const wanted = { reason: String(answer.fields.get("told")), within_s: Number(answer.fields.get("within")) };
    await this.#do(say("The connection of {name} is being drained.", { name: nameOf(connection) }), () =>
      act("POST", `connections/${encodeURIComponent(connection.id)}/drain`, wanted, answer.reason),
    );
  }

  async #do(text: string, deed: () => Promise<unknown>): Promise<void> {
    try {
      await deed();
      tell({ text, tone: "good" });
    } catch (fault) {
      tell({ text: inWords(fault), tone: "bad" });
    }
    this.#polling.again();
  }
}

function told(text: string): TemplateResult {
  return html`<label>${say("Reason shown to the client")}<input name="told" required maxlength="500" value=${text} autocomplete="off" /></label>`;
}

customElements.define("mom-connection-page", ConnectionPage);
