import { html, nothing, type TemplateResult } from "lit";
import { repeat } from "lit/directives/repeat.js";
import { Polling } from "../live/polling.ts";
import { read } from "../live/requests.ts";
import { pageOf } from "../pages.ts";
import { gettext } from "../gettext.ts";
import { count, rate } from "../view/format.ts";
import { partsOf } from "../view/name.ts";
import { sparkline } from "../view/sparkline.ts";
import { Island } from "./island.ts";

const SHOWN = 10;
const EVERY_MS = 2_000;
const FIELDS = "name,depth,in_rate,out_rate,trend";

interface Row {
  name: string;
  address: string;
  depth: number;
  in_rate: number;
  out_rate: number;
  trend: number[];
}

/** The busiest destinations. They keep their order while they are the same ones. */
export class BusiestList extends Island {
  readonly #polling = new Polling<Row[]>(this, () => this.#read(), EVERY_MS);
  #order: string[] = [];

  async #read(): Promise<Row[]> {
    const top = (kind: string) => read<{ items: Row[] }>(`${kind}s`, { sort: "-in_rate", limit: SHOWN, fields: FIELDS });
    const [queues, topics] = await Promise.all([top("queue"), top("topic")]);
    const rows = [
      ...queues.items.map((row) => ({ ...row, address: `/queue/${row.name}` })),
      ...topics.items.map((row) => ({ ...row, address: `/topic/${row.name}` })),
    ];
    return rows.sort((a, b) => b.in_rate + b.out_rate - a.in_rate - a.out_rate || b.depth - a.depth).slice(0, SHOWN);
  }

  protected override render() {
    const { answer, fault } = this.#polling;
    if (answer === undefined) {
      return fault
        ? html`<p class="notice" data-tone="warn" role="status">${fault}
            <button type="button" class="link" @click=${() => this.#polling.again()}>${gettext("Try again")}</button></p>`
        : html`<div class="inside skeleton" role="status"><div></div><div></div><div></div></div>`;
    }
    if (answer.length === 0) return html`<p class="inside quiet">${gettext("There are no destinations yet.")}</p>`;
    return html`<table class="table" data-old=${fault ? "true" : nothing}>
      <caption class="visually-hidden">${gettext("Busiest destinations")}</caption>
      <thead><tr>
        <th scope="col">${gettext("name")}</th>
        <th scope="col" class="num">${gettext("in/s")}</th>
        <th scope="col" class="num">${gettext("out/s")}</th>
        <th scope="col" class="num">${gettext("depth")}</th>
        <th scope="col">${gettext("depth, 5 min")}</th>
      </tr></thead>
      <tbody>${repeat(
        this.#inPlace(answer),
        ({ address }) => address,
        (row) => this.#row(row),
      )}</tbody>
    </table>`;
  }

  /** As they stood before, as long as they are the same. */
  #inPlace(rows: Row[]): Row[] {
    const byAddress = new Map(rows.map((row) => [row.address, row]));
    const same = this.#order.length === rows.length && this.#order.every((address) => byAddress.has(address));
    if (!same) this.#order = rows.map(({ address }) => address);
    return this.#order.map((address) => byAddress.get(address)!);
  }

  #row({ name, address, in_rate, out_rate, depth, trend }: Row): TemplateResult {
    const [prefix, last] = partsOf(name);
    return html`<tr>
      <th scope="row" class="wide"><a class="row named" href=${pageOf(address)} title=${name} aria-label=${name}><span class="prefix">${prefix}</span><span>${last}</span></a>
        ${address.startsWith("/topic/") ? html` <span class="tag">${gettext("topic")}</span>` : nothing}</th>
      <td class="num" data-label=${gettext("in/s")}>${rate(in_rate)}</td>
      <td class="num" data-label=${gettext("out/s")}>${rate(out_rate)}</td>
      <td class="num" data-label=${gettext("depth")}>${count(depth)}</td>
      <td>${sparkline(trend)}</td>
    </tr>`;
  }
}

customElements.define("mom-busiest-list", BusiestList);
