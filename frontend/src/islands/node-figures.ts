import { html, nothing, type TemplateResult } from "lit";
import { nodeHistory, type NodeFigures as Figures } from "../live/node.ts";
import { Follow } from "../live/source.ts";
import { consolePage, queuesPage } from "../pages.ts";
import { gettext } from "../gettext.ts";
import { NONE, count, duration, rate } from "../view/format.ts";
import { Island } from "./island.ts";
import { iconView } from "../view/icon.ts";
import { STEPS, sparkline } from "../view/sparkline.ts";

/** Older messages are marked: the threshold of the built-in alert rule `oldest`. */
const LONG_S = 300;

interface Figure {
  /** Its column in the history of the node. */
  key: string;
  label: string;
  href: string;
  value: (node: Figures) => string;
  /** Whether it needs attention. */
  marked?: (node: Figures) => boolean;
}

const FIGURES: Figure[] = [
  { key: "in", label: gettext("published/s"), href: queuesPage({ sort: "-in_rate" }), value: (node) => rate(node.in_rate) },
  { key: "out", label: gettext("delivered/s"), href: queuesPage({ sort: "-out_rate" }), value: (node) => rate(node.out_rate) },
  { key: "backlog", label: gettext("backlog"), href: queuesPage({ sort: "-depth" }), value: (node) => count(node.backlog) },
  { key: "unsettled", label: gettext("unsettled"), href: queuesPage({ sort: "-unsettled" }), value: (node) => count(node.unsettled) },
  {
    key: "oldest_s",
    label: gettext("oldest message"),
    href: queuesPage({ sort: "-oldest_s" }),
    value: (node) => (node.backlog ? duration(node.oldest_s) : NONE),
    marked: (node) => node.oldest_s > LONG_S,
  },
  {
    key: "dead",
    label: gettext("dead letters"),
    href: queuesPage({ filter: "*.dead", sort: "-depth" }),
    value: (node) => count(node.dead),
    marked: (node) => node.dead > 0,
  },
  { key: "connections", label: gettext("connections"), href: consolePage("connections/"), value: (node) => count(node.connections) },
];

/**
 * The node in seven numbers with their last steps, each of which leads to the list behind it; where there is nothing yet,
 * how to begin.
 *
 * Attribute: `welcome`, the address of the first steps.
 */
export class NodeFigures extends Island {
  static override properties = { welcome: {} };

  declare welcome: string;

  constructor() {
    super();
    this.welcome = "";
    new Follow(this, () => [nodeHistory]);
  }

  protected override render() {
    const { node, course } = nodeHistory;
    return html`<div class="figures" aria-live="off">
      ${FIGURES.map(({ key, label, href, value, marked }) => {
        const warns = node !== undefined && marked?.(node);
        return html`<a href=${href} data-tone=${warns ? "warn" : nothing}>
          <span class="label">${label}</span>
          <span class="value num">${node ? value(node) : NONE}${warns ? html` ${iconView("triangle-alert")}` : nothing}</span>
          ${sparkline(latest(course?.series[key]))}
        </a>`;
      })}
      </div>
      ${node?.destinations === 0 ? this.#empty() : nothing}`;
  }

  #empty(): TemplateResult {
    return html`<section class="card empty">
      <h2>${gettext("No messages have been sent to this broker yet")}</h2>
      <p>${gettext("A queue is created by its first message, and keeps it until a consumer acknowledges it.")}</p>
      <a class="button primary" href=${this.welcome || queuesPage({})}>${gettext("Send a first message")}</a>
    </section>`;
  }
}

/** The last steps of a column that are known. */
function latest(column: readonly (number | null)[] = []): number[] {
  return column.filter((value) => value !== null).slice(-STEPS);
}

customElements.define("mom-node-figures", NodeFigures);
