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
import { iconView } from "../view/icon.ts";

const EVERY_MS = 5_000;
const WIDTH = 148;
const HEIGHT = 44;
/** What a line about waiting messages adds. */
const HEIGHT_OF_WAITS = 15;
const GAP_X = 56;
const GAP_Y = 14;
const MARGIN = 3;
/** Pixels between the edge of a node and its text. */
const PADDING = 11;
/** Narrower than this, what is connected is a table. */
const NARROW_PX = 420;

/** Where a node is drawn. */
interface Place {
  x: number;
  y: number;
  height: number;
}

function heightOf({ waits }: Vertex): number {
  return HEIGHT + (waits ? HEIGHT_OF_WAITS : 0);
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
    const heights = columns.map((column) => column.reduce((sum, vertex) => sum + heightOf(vertex) + GAP_Y, -GAP_Y));
    const height = Math.max(...heights) + 2 * MARGIN;
    const width = 3 * WIDTH + 2 * GAP_X + 2 * MARGIN;
    const places = new Map<string, Place>();
    columns.forEach((column, number) => {
      // Columns are centred vertically.
      let y = (height - heights[number]!) / 2;
      for (const vertex of column) {
        places.set(vertex.id, { x: MARGIN + number * (WIDTH + GAP_X), y, height: heightOf(vertex) });
        y += heightOf(vertex) + GAP_Y;
      }
    });
    return html`<svg class="topology" role="group" aria-label=${gettext("Connections of this broker")}
      viewBox="0 0 ${width} ${height}" width=${width} height=${height}>
      ${lines.map((line) => this.#line(line, places.get(line.from)!, places.get(line.to)!))}
      ${vertices.map((vertex) => this.#vertex(vertex, places.get(vertex.id)!))}
    </svg>`;
  }

  #line({ text, tone, flows }: Line, source: Place, target: Place) {
    const [x1, y1, x2, y2] = [source.x + WIDTH, source.y + source.height / 2, target.x, target.y + target.height / 2];
    const middle = (x1 + x2) / 2;
    return svg`<g class="line" data-tone=${tone} ?data-flows=${flows} aria-hidden="true">
      <path d="M${x1} ${y1}C${middle} ${y1} ${middle} ${y2} ${x2} ${y2}"></path>
      <path class="head" d="M${x2 - 7} ${y2 - 4}L${x2} ${y2}L${x2 - 7} ${y2 + 4}"></path>
      <text x=${x1 + (x2 - x1) * 0.62} y=${y1 + (y2 - y1) * 0.72 - 5}>${text}</text>
    </g>`;
  }

  /** A node. Its text is HTML, which is cut where it is wider than the node; the whole is the title. */
  #vertex({ title, text, waits, href, tone, icon }: Vertex, { x, y, height }: Place) {
    const whole = [title, text, waits].filter(Boolean).join(" ");
    return svg`<a href=${href} class="vertex" data-tone=${tone} aria-label=${whole}>
      <title>${whole}</title>
      <rect x=${x} y=${y} width=${WIDTH} height=${height} rx="8"></rect>
      <foreignObject x=${x + PADDING} y=${y} width=${WIDTH - 2 * PADDING} height=${height}>
        <div class="within"><span class="title">${title}</span> <span class="caption">${icon ? iconView(icon) : nothing}${text}</span> ${waits ? html`<span class="caption">${waits}</span>` : nothing}</div>
      </foreignObject>
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
            <td data-label=${gettext("state")}>${other.icon ? signView({ ...other, word: [other.text, other.waits].filter(Boolean).join(" · ") }) : NONE}</td>
          </tr>`;
        })}
      </tbody>
    </table>`;
  }
}

customElements.define("mom-node-topology", NodeTopology);
