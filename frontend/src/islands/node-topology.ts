import { html, nothing, svg, type TemplateResult } from "lit";
import { nodeHistory } from "../live/node.ts";
import { Polling } from "../live/polling.ts";
import { read } from "../live/requests.ts";
import { Follow } from "../live/source.ts";
import { gettext } from "../gettext.ts";
import { signView } from "../view/sign.ts";
import { NONE } from "../view/format.ts";
import { topologyOf, type Drawing, type Forwarding, type Line, type Vertex } from "../view/topology.ts";
import { Island } from "./island.ts";
import { iconAddress } from "../view/icon.ts";

const EVERY_MS = 5_000;
const WIDTH = 148;
const HEIGHT = 44;
const GAP_X = 56;
const GAP_Y = 14;
const MARGIN = 3;
/** A name that is longer is cut; the whole one is the title. */
const LETTERS = 17;
/** Narrower than this, what is connected is a table. */
const NARROW_PX = 420;

interface Point {
  x: number;
  y: number;
}

/** The topology as a diagram and as a table. */
export class NodeTopology extends Island {
  readonly #polling = new Polling<Forwarding>(
    this,
    () => read("forwarding", { flows: false }),
    EVERY_MS,
    () => ["$mom.bridge.>"],
  );
  #asTable: boolean | undefined;

  constructor() {
    super();
    new Follow(this, () => [nodeHistory]);
  }

  protected override render() {
    const { node } = nodeHistory;
    const { answer, fault } = this.#polling;
    if (node === undefined || (answer === undefined && !fault)) {
      return html`<div class="inside skeleton" role="status"><div></div><div></div><div></div></div>`;
    }
    const drawing = topologyOf(node, answer ?? { bridges: [], incoming: [] });
    const asTable = this.#asTable ?? (this.parentElement?.clientWidth ?? 0) < NARROW_PX;
    return html`<div class="inside">
      <button type="button" class="link twin" aria-pressed=${asTable} @click=${() => this.#toggle(!asTable)}>
        ${asTable ? gettext("View as diagram") : gettext("View as table")}
      </button>
      ${
        fault
          ? html`<p class="notice" data-tone="warn" role="status">${fault}
            <button type="button" class="link" @click=${() => this.#polling.again()}>${gettext("Try again")}</button></p>`
          : nothing
      }
      ${asTable ? this.#table(drawing) : this.#picture(drawing)}
    </div>`;
  }

  #toggle(asTable: boolean): void {
    this.#asTable = asTable;
    this.requestUpdate();
  }

  #picture({ vertices, lines }: Drawing): TemplateResult {
    const columns = [0, 1, 2].map((column) => vertices.filter((vertex) => vertex.column === column));
    const height = Math.max(...columns.map(({ length }) => length * (HEIGHT + GAP_Y) - GAP_Y)) + 2 * MARGIN;
    const width = 3 * WIDTH + 2 * GAP_X + 2 * MARGIN;
    /** The upper left corner of each node; columns are centred vertically. */
    const corners = new Map<string, Point>();
    columns.forEach((column, number) => {
      const first = (height - column.length * (HEIGHT + GAP_Y) + GAP_Y) / 2;
      column.forEach(({ id }, row) => {
        corners.set(id, { x: MARGIN + number * (WIDTH + GAP_X), y: first + row * (HEIGHT + GAP_Y) });
      });
    });
    return html`<svg class="topology" role="group" aria-label=${gettext("Connections of this broker")}
      viewBox="0 0 ${width} ${height}" width=${width} height=${height}>
      ${lines.map((line) => this.#line(line, corners.get(line.from)!, corners.get(line.to)!))}
      ${vertices.map((vertex) => this.#vertex(vertex, corners.get(vertex.id)!))}
    </svg>`;
  }

  #line({ text, tone, flows }: Line, source: Point, target: Point) {
    const [x1, y1, x2, y2] = [source.x + WIDTH, source.y + HEIGHT / 2, target.x, target.y + HEIGHT / 2];
    const middle = (x1 + x2) / 2;
    return svg`<g class="line" data-tone=${tone} ?data-flows=${flows} aria-hidden="true">
      <path d="M${x1} ${y1}C${middle} ${y1} ${middle} ${y2} ${x2} ${y2}"></path>
      <path class="head" d="M${x2 - 7} ${y2 - 4}L${x2} ${y2}L${x2 - 7} ${y2 + 4}"></path>
      <text x=${x1 + (x2 - x1) * 0.62} y=${y1 + (y2 - y1) * 0.72 - 5}>${text}</text>
    </g>`;
  }

  #vertex({ title, text, href, tone, icon }: Vertex, { x, y }: Point) {
    const short = title.length > LETTERS ? `${title.slice(0, LETTERS - 1)}…` : title;
    return svg`<a href=${href} class="vertex" data-tone=${tone} aria-label=${`${title}: ${text}`}>
      <title>${title}</title>
      <rect x=${x} y=${y} width=${WIDTH} height=${HEIGHT} rx="8"></rect>
      <text class="title" x=${x + 11} y=${y + 19}>${short}</text>
      ${icon ? svg`<use class="icon" href=${iconAddress(icon)} x=${x + 11} y=${y + 25} width="11" height="11"></use>` : nothing}
      <text class="caption" x=${x + (icon ? 26 : 11)} y=${y + 34}>${text}</text>
    </a>`;
  }

  #table({ vertices, lines }: Drawing): TemplateResult {
    const named = new Map(vertices.map((vertex) => [vertex.id, vertex]));
    return html`<table class="table">
      <caption class="visually-hidden">${gettext("Connections of this broker")}</caption>
      <thead><tr><th scope="col">${gettext("from")}</th><th scope="col">${gettext("to")}</th><th scope="col">${gettext("flow")}</th><th scope="col">${gettext("state")}</th></tr></thead>
      <tbody>
        ${lines.map(({ from, to, text }) => {
          const [source, target] = [named.get(from)!, named.get(to)!];
          const other = source.id === "broker" ? target : source;
          return html`<tr>
            <th scope="row"><a href=${source.href}>${source.title}</a></th>
            <td data-label=${gettext("to")}><a href=${target.href}>${target.title}</a></td>
            <td data-label=${gettext("flow")}>${text}</td>
            <td data-label=${gettext("state")}>${other.icon ? signView({ ...other, word: other.text }) : NONE}</td>
          </tr>`;
        })}
      </tbody>
    </table>`;
  }
}

customElements.define("mom-node-topology", NodeTopology);
