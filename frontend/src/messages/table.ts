/** The table of the messages of a queue. */

import { html, nothing, type TemplateResult } from "lit";
import { repeat } from "lit/directives/repeat.js";
import { BROKER_HEADERS, DEAD_LETTER_HEADERS } from "../generated/messages.ts";
import { gettext } from "../gettext.ts";
import { pageAddress } from "../services.ts";
import { bodyOf, preview } from "../view/body.ts";
import { ago, bytes, count, fullTime } from "../view/format.ts";
import { originOf, reasonOf } from "./path.ts";
import type { Message } from "./requests.ts";

const SHOWN_HEADERS = 3;
const OF_BROKER = new Set<string>(BROKER_HEADERS);
/** They are shown elsewhere. */
const OF_DEAD_LETTERS = new Set<string>(DEAD_LETTER_HEADERS);

export interface TableParts {
  queue: string;
  /** In a cluster the broker that was asked: what others own can only be read, moved and deleted at them. */
  broker: string;
  items: Message[];
  selected: ReadonlySet<string>;
  /** Whether the rows are older than they should be. */
  isOld: boolean;
  select: (ids: string[], chosen: boolean) => void;
  reload: () => void;
  detail: (message: Message) => TemplateResult;
}

export function table({ queue, broker, items, selected, isOld, select, reload, detail }: TableParts): TemplateResult {
  const dead = items.some((item) => originOf(item) !== "");
  const ids = items.filter((item) => isOwn(item, broker)).map(({ id }) => id);
  const all = ids.length > 0 && ids.every((id) => selected.has(id));
  const some = !all && ids.some((id) => selected.has(id));
  return html`<table class="messages" data-old=${isOld} @gone=${reload}>
    <caption class="visually-hidden">${gettext("Messages of {queue}", { queue })}</caption>
    <thead>
      <tr>
        <th scope="col" class="col-mark">
          <input type="checkbox" aria-label=${gettext("Select all on this page")} .checked=${all} .indeterminate=${some} @change=${() => select(ids, !all)} />
        </th>
        <th scope="col" class="num">#</th>
        <th scope="col">${gettext("time")}</th>
        <th scope="col" class="col-id">${gettext("id")}</th>
        <th scope="col" class="col-type">${gettext("type")}</th>
        <th scope="col" class="num">${gettext("size")}</th>
        <th scope="col" class="num col-attempt">${gettext("attempt")}</th>
        ${dead ? html`<th scope="col">${gettext("reason")}</th>` : nothing}
        <th scope="col" class="col-headers">${gettext("headers")}</th>
        <th scope="col" class="col-preview">${gettext("body")}</th>
      </tr>
    </thead>
    <tbody>
      ${repeat(
        items,
        ({ id }) => id,
        (item) => row(item, isOwn(item, broker), dead, selected.has(item.id), (chosen) => select([item.id], chosen), detail),
      )}
    </tbody>
  </table>`;
}

/** Whether a message is owned by the broker that was asked. */
export function isOwn(item: Message, broker: string): boolean {
  return (item.broker ?? broker) === broker;
}

function row(item: Message, own: boolean, dead: boolean, isSelected: boolean, select: (chosen: boolean) => void, detail: TableParts["detail"]): TemplateResult {
  const opened = pageAddress.get("message") === item.id;
  const headers = shownHeaders(item.headers);
  const reason = reasonOf(item);
  const open = () => pageAddress.go({ message: opened ? "" : item.id }, { replace: true });
  return html`<tr class="message" data-opened=${opened} data-selected=${isSelected}>
      <td class="col-mark">
        <input type="checkbox" ?disabled=${!own} aria-label=${gettext("Select message #{position}", { position: item.position })} .checked=${isSelected} @change=${() => select(!isSelected)} />
      </td>
      <th scope="row" class="num">
        <button type="button" class="opens" data-id=${item.id} aria-expanded=${opened} @click=${open}>
          ${count(item.position)}
        </button>
      </th>
      <td><time datetime=${item.time} title=${`${fullTime(item.time)} · ${item.time}`}>${ago(item.time)}</time>
        ${item.state === "unsettled" ? html`<span class="tag">${gettext("unsettled")}</span>` : nothing}
        ${own ? nothing : html`<span class="tag" title=${gettext("Open the console of {broker} to read, move or delete it.", { broker: item.broker ?? "" })}>${gettext("at {broker}", { broker: item.broker ?? "" })}</span>`}
        ${item.due ? html`<span class="tag" title=${item.due}>${gettext("delayed")}</span>` : nothing}</td>
      <td class="col-id" title=${item.id}>${shortened(item.id)}</td>
      <td class="col-type">${item.type ?? item.content_type ?? ""}</td>
      <td class="num">${bytes(item.size)}</td>
      <td class="num col-attempt">${item.attempt}</td>
      ${dead ? html`<td class="col-reason" title=${reason}>${reason}</td>` : nothing}
      <td class="col-headers">${headers.slice(0, SHOWN_HEADERS).map(([name, value]) => html`<span>${name}=${value}</span>`)}${
        headers.length > SHOWN_HEADERS ? html`<span>+${headers.length - SHOWN_HEADERS}</span>` : nothing
      }</td>
      <td class="col-preview">${preview(bodyOf(item)) || html`<span class="quiet">${gettext("(empty body)")}</span>`}</td>
    </tr>
    ${opened ? html`<tr class="message-details"><td colspan="10">${detail(item)}</td></tr>` : nothing}`;
}

/** The end of an id: its beginning is the time, which is shown next to it. */
function shortened(id: string): string {
  return id.length > 14 ? `…${id.slice(-12)}` : id;
}

/** The headers of a message for its row, which has room for few: first those of the application. */
export function shownHeaders(headers: Record<string, string>): [name: string, value: string][] {
  const shown = Object.entries(headers).filter(([name]) => !OF_DEAD_LETTERS.has(name));
  return [...shown.filter(([name]) => !OF_BROKER.has(name)), ...shown.filter(([name]) => OF_BROKER.has(name))];
}
