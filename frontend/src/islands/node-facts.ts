import { html } from "lit";
import { Follow } from "../live/source.ts";
import { NONE, bytes, count, rate } from "../view/format.ts";
import { Island } from "./island.ts";
import { statistics } from "../services.ts";

/** The node in one line of numbers. */
export class NodeFacts extends Island {
  constructor() {
    super();
    new Follow(this, () => [statistics]);
  }

  protected override render() {
    const { node, destinations } = statistics;
    const sum = (field: "depth" | "unsettled") =>
      [...destinations.values()].reduce((total, destination) => total + destination[field], 0);
    const facts: [label: string, value: string][] = node
      ? [
          ["published/s", rate(node.in_rate)],
          ["delivered/s", rate(node.out_rate)],
          ["backlog", count(sum("depth"))],
          ["unsettled", count(sum("unsettled"))],
          ["connections", count(node.connections)],
          ["memory", bytes(node.memory_bytes)],
          ["journal", bytes(node.journal_bytes)],
        ]
      : ["published/s", "delivered/s", "backlog", "unsettled", "connections", "memory", "journal"].map(
          (label) => [label, NONE],
        );
    return html`<dl class="facts">
      ${facts.map(([label, value]) => html`<div><dt>${label}</dt><dd class="num">${value}</dd></div>`)}
    </dl>`;
  }
}

customElements.define("mom-node-facts", NodeFacts);
