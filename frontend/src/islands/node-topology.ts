import type { GraphLabel } from "@dagrejs/dagre";
import { html, nothing, svg, type TemplateResult } from "lit";
import { nodePast } from "../live/node.ts";
import { Polling } from "../live/polling.ts";
import { read } from "../live/requests.ts";
import { Follow } from "../live/source.ts";
import { say } from "../say.ts";
import { drawn, type Drawing, type Forwarding, type Line, type Vertex } from "../view/topology.ts";
import "../style/overview.css";
import { Island } from "./island.ts";

const EVERY_MS = 5_000;
const WIDTH = 128;
const HEIGHT = 44;
/** A name that is longer is cut; the whole one is the title. */
const LETTERS = 17;
/** Narrower than this, what is connected is a table. */
const NARROW_PX = 420;

interface Point {
  x: number;
  y: number;
}

interface Layout {
  width: number;
  height: number;
  vertices: Map<string, Point>;
  lines: Map<string, Point[]>;
}

/** What is connected with the broker: a drawing, and a table that says the same. */
export class NodeTopology extends Island {
  readonly #polling = new Polling<Forwarding>(
    this,
    () => read("forwarding", { flows: false }),
    EVERY_MS,
    () => ["$mom.bridge.>"],
  );
  #layout: Layout | undefined;
  #laidOut = "";
  #asTable: boolean | undefined;

  constructor() {
    super();
    new Follow(this, () => [nodePast]);
  }

  protected override render() {
    const { node } = nodePast;
    const { answer, fault } = this.#polling;
    if (node === undefined || (answer === undefined && !fault)) {
      return html`<div class="inside skeleton" role="status"><div></div><div></div><div></div></div>`;
    }
    const drawing = drawn(node, answer ?? { bridges: [], incoming: [] });
    void this.#lay(drawing);
    const asTable = this.#asTable ?? this.clientWidth < NARROW_PX;
    return html`<div class="inside">
      <button type="button" class="link" aria-pressed=${asTable} @click=${() => this.#toggle(!asTable)}>
        ${asTable ? say("View as drawing") : say("View as table")}
      </button>
      ${fault
        ? html`<p class="notice" data-tone="warn" role="status">${fault}
            <button type="button" class="link" @click=${() => this.#polling.again()}>${say("Try again")}</button></p>`
        : nothing}
      ${asTable ? this.#table(drawing) : this.#layout ? this.#picture(drawing, this.#layout) : nothing}
    </div>`;
  }

  #toggle(asTable: boolean): void {
    this.#asTable = asTable;
    this.requestUpdate();
  }

  /** Lays out anew when other things are connected; their figures move nothing. */
  async #lay({ vertices, lines }: Drawing): Promise<void> {
    const wanted = JSON.stringify([vertices.map(({ id }) => id), lines.map(({ from, to }) => [from, to])]);
    if (wanted === this.#laidOut) return;
    this.#laidOut = wanted;
    const { Graph, layout } = await import("@dagrejs/dagre");
    const graph = new Graph();
    graph.setGraph({ rankdir: "LR", nodesep: 14, ranksep: 74, marginx: 4, marginy: 6 });
    graph.setDefaultEdgeLabel(() => ({}));
    for (const { id } of vertices) graph.setNode(id, { width: WIDTH, height: HEIGHT });
    for (const { from, to } of lines) graph.setEdge(from, to);
    layout(graph);
    if (wanted !== this.#laidOut) return;
    const { width = 0, height = 0 } = graph.graph() as GraphLabel;
    this.#layout = {
      width,
      height,
      vertices: new Map(vertices.map(({ id }) => [id, graph.node(id) as Point])),
      lines: new Map(lines.map(({ from, to }) => [`${from}>${to}`, (graph.edge(from, to) as { points: Point[] }).points])),
    };
    this.requestUpdate();
  }

  #picture({ vertices, lines }: Drawing, layout: Layout): TemplateResult {
    return html`<svg class="topology" role="group" aria-label=${say("What is connected with this broker")}
      viewBox="0 0 ${layout.width} ${layout.height}" width=${layout.width} height=${layout.height}>
      ${lines.map((line) => this.#line(line, layout))}
      ${vertices.map((vertex) => this.#vertex(vertex, layout))}
    </svg>`;
  }

  #line({ from, to, says, tone, flows }: Line, layout: Layout) {
    const points = layout.lines.get(`${from}>${to}`);
    const first = points?.[0];
    const last = points?.at(-1);
    if (!first || !last) return nothing;
    const middle = (first.x + last.x) / 2;
    const path = `M${first.x} ${first.y}C${middle} ${first.y} ${middle} ${last.y} ${last.x} ${last.y}`;
    return svg`<g class="line" data-tone=${tone} ?data-flows=${flows} aria-hidden="true">
      <path d=${path}></path>
      <path class="head" d="M${last.x - 7} ${last.y - 4}L${last.x} ${last.y}L${last.x - 7} ${last.y + 4}"></path>
      <text x=${middle} y=${(first.y + last.y) / 2 - 5}>${says}</text>
    </g>`;
  }

  #vertex({ id, title, says, href, tone, shape }: Vertex, layout: Layout) {
    const at = layout.vertices.get(id);
    if (!at) return nothing;
    const short = title.length > LETTERS ? `${title.slice(0, LETTERS - 1)}…` : title;
    const [left, top] = [at.x - WIDTH / 2, at.y - HEIGHT / 2];
    return svg`<a href=${href} class="vertex" data-tone=${tone} aria-label=${`${title}: ${says}`}>
      <title>${title}</title>
      <rect x=${left} y=${top} width=${WIDTH} height=${HEIGHT} rx="8"></rect>
      <text class="title" x=${left + 11} y=${top + 19}>${short}</text>
      <text class="says" x=${left + 11} y=${top + 34}>${shape ? `${shape} ` : ""}${says}</text>
    </a>`;
  }

  #table({ vertices, lines }: Drawing): TemplateResult {
    const named = new Map(vertices.map((vertex) => [vertex.id, vertex]));
    return html`<table class="table">
      <caption class="visually-hidden">${say("What is connected with this broker")}</caption>
      <thead><tr><th scope="col">${say("from")}</th><th scope="col">${say("to")}</th><th scope="col">${say("flow")}</th><th scope="col">${say("state")}</th></tr></thead>
      <tbody>
        ${lines.map(({ from, to, says }) => {
          const [source, target] = [named.get(from)!, named.get(to)!];
          const other = source.id === "broker" ? target : source;
          return html`<tr>
            <th scope="row"><a href=${source.href}>${source.title}</a></th>
            <td data-label=${say("to")}><a href=${target.href}>${target.title}</a></td>
            <td data-label=${say("flow")}>${says}</td>
            <td data-label=${say("state")}><span class="state" data-tone=${other.tone}>${other.shape} ${other.says}</span></td>
          </tr>`;
        })}
      </tbody>
    </table>`;
  }
}

customElements.define("mom-node-topology", NodeTopology);
