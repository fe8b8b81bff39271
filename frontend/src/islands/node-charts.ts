import { html, nothing } from "lit";
import { nodeHistory } from "../live/node.ts";
import { Follow } from "../live/source.ts";
import { gettext } from "../gettext.ts";
import { chosenRange } from "../view/range.ts";
import type { ChartLine } from "../view/chart.ts";
import "./chart.ts";
import { Island } from "./island.ts";
import "./range-choice.ts";
import { iconView } from "../view/icon.ts";

const MOVED: ChartLine[] = [
  { key: "in", label: gettext("published"), tone: "accent" },
  { key: "out", label: gettext("delivered"), tone: "good", dashed: true },
];
const WAITS: ChartLine[] = [
  { key: "backlog", label: gettext("backlog"), tone: "accent", form: "area" },
  { key: "unsettled", label: gettext("unsettled"), tone: "warn", dashed: true },
];
const AGES: ChartLine[] = [
  { key: "oldest_s", label: gettext("oldest message"), tone: "warn" },
  { key: "wait_p95_s", label: gettext("time to delivery, p95"), tone: "accent", dashed: true },
];

/** Throughput, waiting messages and latency of the node, with a common range and cursor. */
export class NodeCharts extends Island {
  constructor() {
    super();
    new Follow(this, () => [nodeHistory]);
  }

  override connectedCallback(): void {
    super.connectedCallback();
    nodeHistory.choose(chosenRange());
  }

  protected override render() {
    const { course, fault } = nodeHistory;
    return html`
      <div class="tools">
        <mom-range-choice @range=${() => nodeHistory.choose(chosenRange())}></mom-range-choice>
        ${
          fault
            ? html`<span class="state" data-tone="warn" role="status">${iconView("triangle-alert")} ${gettext("not updated: {fault}", { fault })}</span>
              <button type="button" class="link" @click=${() => void nodeHistory.again()}>${gettext("Try again")}</button>`
            : nothing
        }
      </div>
      <mom-chart heading=${gettext("Throughput")} unit="rate" sync="node" .lines=${MOVED} .columns=${course}></mom-chart>
      <mom-chart heading=${gettext("Waiting")} unit="count" sync="node" height="110" .lines=${WAITS} .columns=${course}></mom-chart>
      <mom-chart heading=${gettext("Latency")} unit="seconds" sync="node" height="110" .lines=${AGES} .columns=${course}></mom-chart>
    `;
  }
}

customElements.define("mom-node-charts", NodeCharts);
