import { html, nothing, type TemplateResult } from "lit";
import { gettext } from "../gettext.ts";
import { Polling } from "../live/polling.ts";
import { read } from "../live/requests.ts";
import { servicesPage } from "../pages.ts";
import { count } from "../view/format.ts";
import { polled } from "../view/polled.ts";
import { linkOf, type ServiceOrigin } from "../view/service.ts";
import { Island } from "./island.ts";

const EVERY_MS = 2_000;

interface Fetches {
  pending: number;
  held: number;
  fetched: number;
  gone: number;
  polls: number;
}

interface Origin extends ServiceOrigin, Fetches {
  login: string;
  services: number;
  queues: ({ name: string; more: boolean } & Fetches)[];
}

const NUMBERS: [name: keyof Fetches, label: string, hint: string][] = [
  ["pending", gettext("pending"), gettext("messages that wait at the origin")],
  ["held", gettext("held"), gettext("fetched, and not settled yet")],
  ["fetched", gettext("fetches"), gettext("originals that were fetched from the origin")],
  ["gone", gettext("gone"), gettext("originals that were gone when they were to be fetched")],
  ["polls", gettext("polls spared"), gettext("receive requests that were answered here, and not by the origin")],
];

/** The origins of a callback broker: the links to remote brokers, with their services. */
export class OriginList extends Island {
  readonly #polling = new Polling<{ items: Origin[] }>(
    this,
    () => read("origins"),
    EVERY_MS,
    () => ["$mom.conn.>"],
  );

  protected override render() {
    return polled(this.#polling, ({ items }, old) => (items.length === 0 ? none() : table(items, old)));
  }
}

function table(items: Origin[], old: boolean): TemplateResult {
  return html`<table class="resources origins" data-old=${old ? "true" : nothing}>
    <caption class="visually-hidden">${gettext("Origins")}</caption>
    <thead>
      <tr>
        <th scope="col">${gettext("origin, service")}</th>
        <th scope="col">${gettext("link")}</th>
        <th scope="col">${gettext("login")}</th>
        <th scope="col" class="num" title=${gettext("services that are registered there")}>${gettext("services")}</th>
        ${NUMBERS.map(([, label, hint]) => html`<th scope="col" class="num" title=${hint}>${label}</th>`)}
      </tr>
    </thead>
    <tbody>
      ${items.map(rows)}
    </tbody>
  </table>`;
}

/** An origin, and below it each of its services. */
function rows(origin: Origin): TemplateResult {
  const { url, login, services, queues } = origin;
  return html`<tr data-row=${url}>
      <th scope="row"><code>${url}</code></th>
      <td data-label=${gettext("link")}><div>${linkOf(origin)}</div></td>
      <td data-label=${gettext("login")}>${login || gettext("anonymous")}</td>
      <td data-label=${gettext("services")} class="num">${count(services)}</td>
      ${numbers(origin)}
    </tr>
    ${queues.map(
      (queue) => html`<tr data-row="${url} ${queue.name}">
        <th scope="row" class="below"><a href=${servicesPage({ filter: queue.name })}>${queue.name}</a></th>
        <td class="nothing" colspan="3"></td>
        ${numbers(queue, queue.more)}
      </tr>`,
    )}`;
}

/** The numbers of an origin or of a service; `more` wait than are listed. */
function numbers(fetches: Fetches, more = false): TemplateResult[] {
  return NUMBERS.map(([name, label]) => {
    const value = count(fetches[name]);
    return html`<td data-label=${label} class="num">${name === "pending" && more ? html`<span title=${gettext("more wait than are listed")}>${value}+</span>` : value}</td>`;
  });
}

function none(): TemplateResult {
  return html`<div class="empty">
    <p>${gettext("No service of this machine is registered at a remote broker. Programs register with mom_client.connect(service=…).")}</p>
  </div>`;
}

customElements.define("mom-origin-list", OriginList);
