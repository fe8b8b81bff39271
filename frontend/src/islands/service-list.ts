import { html, nothing, type TemplateResult } from "lit";
import { repeat } from "lit/directives/repeat.js";
import { gettext, ngettext } from "../gettext.ts";
import { Polling } from "../live/polling.ts";
import { read } from "../live/requests.ts";
import type { Change } from "../page-address.ts";
import { servicePage } from "../pages.ts";
import { pageAddress } from "../services.ts";
import { NONE, count } from "../view/format.ts";
import { heading, type Heading } from "../view/heading.ts";
import { iconView } from "../view/icon.ts";
import { moment } from "../view/moment.ts";
import { polled } from "../view/polled.ts";
import { activityOf, linkOf, serviceActions, type Service } from "../view/service.ts";
import { Island } from "./island.ts";

const EVERY_MS = 2_000;
const ROWS = 100;

interface Answer {
  items: Service[];
  next: string | null;
  approx_total: number;
}

const HEADINGS: Heading[] = [
  { label: gettext("service"), sort: "name" },
  { label: gettext("state") },
  { label: gettext("type"), sort: "type" },
  { label: gettext("machine"), sort: "machine" },
  { label: gettext("user"), sort: "user" },
  { label: gettext("origin, link"), hint: gettext("at a callback broker: the remote broker of its messages") },
  { label: gettext("since"), sort: "since" },
  { label: gettext("pending"), sort: "pending", numeric: true, hint: gettext("messages that wait for it") },
];
const CHOICES = [
  ["", gettext("all")],
  ["true", gettext("active")],
  ["false", gettext("inactive")],
] as const;

/** The registered services. Filter, order and page are in the address and evaluated by the broker. */
export class ServiceList extends Island {
  static override properties = { admin: {} };
  declare admin: string | null;

  readonly #polling = new Polling<Answer>(
    this,
    () => this.#read(),
    EVERY_MS,
    () => ["$mom.conn.>"],
  );
  #unwatch: (() => void) | undefined;

  override connectedCallback(): void {
    super.connectedCallback();
    this.#unwatch = pageAddress.watch(() => this.#polling.again());
  }

  override disconnectedCallback(): void {
    super.disconnectedCallback();
    this.#unwatch?.();
  }

  #read(): Promise<Answer> {
    const [q, active, sort, after] = ["filter", "active", "sort", "after"].map((name) => pageAddress.get(name));
    return read("services", { q, active, sort, after, limit: ROWS });
  }

  /** Change the address, and go to the first page. */
  #go(change: Change, options = {}): void {
    pageAddress.go({ after: null, ...change }, options);
  }

  protected override render() {
    return polled(
      this.#polling,
      (answer, old) => html`
      ${this.#tools(answer)}
      ${answer.items.length === 0 ? this.#none() : this.#table(answer, old)}
      ${this.#pages(answer)}
    `,
    );
  }

  #tools({ approx_total }: Answer): TemplateResult {
    const shown = pageAddress.get("active");
    return html`<div class="tools sought">
      <label class="filter">${iconView("search")}
        <input
          type="search"
          aria-label=${gettext("Filter by name")}
          placeholder=${gettext("filter: name")}
          autocomplete="off"
          spellcheck="false"
          .value=${pageAddress.get("filter")}
          @input=${(event: InputEvent) => this.#go({ filter: (event.target as HTMLInputElement).value }, { replace: true })}
        />
      </label>
      <div class="segments" role="group" aria-label=${gettext("State")}>
        ${CHOICES.map(([value, label]) => html`<button type="button" aria-pressed=${shown === value} @click=${() => this.#go({ active: value })}>${label}</button>`)}
      </div>
      <span class="quiet" role="status">${ngettext("{count} service", "{count} services", approx_total)}</span>
    </div>`;
  }

  #table({ items }: Answer, old: boolean): TemplateResult {
    return html`<table class="resources services" data-old=${old ? "true" : nothing}>
      <caption class="visually-hidden">${gettext("Services")}</caption>
      <thead>
        <tr>
          ${HEADINGS.map((one) => heading(one, pageAddress.get("sort"), (sort) => this.#go({ sort })))}
          <th scope="col"><span class="visually-hidden">${gettext("actions")}</span></th>
        </tr>
      </thead>
      <tbody>
        ${repeat(
          items,
          ({ id }) => id,
          (service) => this.#row(service),
        )}
      </tbody>
    </table>`;
  }

  #row(service: Service): TemplateResult {
    const { id, name, type, machine, user, origin, since, pending } = service;
    return html`<tr data-row=${id}>
      <th scope="row"><a href=${servicePage(id)}>${name}</a> <span class="quiet">${id}</span></th>
      <td data-label=${gettext("state")}>${activityOf(service)}</td>
      <td data-label=${gettext("type")} class=${type ? "" : "nothing"}>${type || NONE}</td>
      <td data-label=${gettext("machine")}>${machine || NONE}</td>
      <td data-label=${gettext("user")}>${user}</td>
      <td data-label=${gettext("origin, link")} class=${origin ? "" : "nothing"}>${origin ? html`<div><code>${origin.url}</code> ${linkOf(origin)}</div>` : NONE}</td>
      <td data-label=${gettext("since")}>${moment(since)}</td>
      <td data-label=${gettext("pending")} class="num">${count(pending)}</td>
      <td><div class="tools">${serviceActions(service, this.admin !== null, () => this.#polling.again())}</div></td>
    </tr>`;
  }

  #pages({ next }: Answer): TemplateResult | typeof nothing {
    const after = pageAddress.get("after");
    if (!after && next === null) return nothing;
    return html`<nav class="tools more" aria-label=${gettext("Pages")}>
      ${after ? html`<button type="button" @click=${() => this.#go({})}>${gettext("First page")}</button>` : nothing}
      ${next !== null ? html`<button type="button" @click=${() => this.#go({ after: next })}>${gettext("Next page")}</button>` : nothing}
    </nav>`;
  }

  #none(): TemplateResult {
    if (pageAddress.get("filter") || pageAddress.get("active")) {
      return html`<div class="empty">
        ${iconView("search")}
        <p>${gettext("No service matches the filter.")}</p>
        <button type="button" @click=${() => this.#go({ filter: "", active: "" })}>${gettext("Clear filter")}</button>
      </div>`;
    }
    return html`<div class="empty">
      ${iconView("server")}
      <p>${gettext("No program is registered as a service. Programs register with mom_client.connect(service=…), with POST /api/v1/services or with the header mom-service of CONNECT.")}</p>
    </div>`;
  }
}

customElements.define("mom-service-list", ServiceList);
