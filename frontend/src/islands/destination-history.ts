import { html, nothing } from "lit";
import { place } from "../services.ts";
import { Again } from "../live/again.ts";
import { withSecond, type Columns } from "../live/columns.ts";
import { oneDestination, pathOf, type Kind, type OneDestination } from "../live/one-destination.ts";
import { inWords, read } from "../live/requests.ts";
import { Follow } from "../live/source.ts";
import { say } from "../say.ts";
import { chosenRange, spanOf } from "../view/range.ts";
import type { Line, Mark, Unit } from "./chart.ts";
import "./chart.ts";
import { Island } from "./island.ts";
import "./range-choice.ts";

interface Picture {
  heading: string;
  unit: Unit;
  lines: Line[];
}

const DEPTH: Picture = {
  heading: say("Messages"),
  unit: "count",
  lines: [
    { key: "depth", label: say("ready"), tone: "accent", form: "area" },
    { key: "unsettled", label: say("unsettled"), tone: "warn", dashed: true },
  ],
};
const RATES: Picture = {
  heading: say("In and out"),
  unit: "rate",
  lines: [
    { key: "in", label: say("in"), tone: "accent" },
    { key: "out", label: say("out"), tone: "good", dashed: true },
    { key: "dead", label: say("dead-lettered"), tone: "bad" },
  ],
};
const AGE: Picture = {
  heading: say("Age of the oldest message"),
  unit: "seconds",
  lines: [{ key: "oldest_s", label: say("oldest"), tone: "warn", form: "area" }],
};
const TIMES: Picture = {
  heading: say("Wait and processing time (95th percentile)"),
  unit: "seconds",
  lines: [
    { key: "wait_p95_s", label: say("from arrival to delivery"), tone: "accent" },
    { key: "hold_p95_s", label: say("from delivery to acknowledgement"), tone: "good", dashed: true },
  ],
};
const CONSUMERS: Picture = {
  heading: say("Consumers"),
  unit: "count",
  lines: [{ key: "consumers", label: say("consumers"), tone: "good", form: "steps" }],
};
const PICTURES: Record<Kind, Picture[]> = {
  queue: [DEPTH, RATES, AGE, TIMES, CONSUMERS],
  topic: [RATES, CONSUMERS],
};
/** What is drawn is read anew so often: small differences do not add up. */
const READ_AGAIN_MS = 60_000;

/** The past of a destination as charts whose cursors go together, with changes of its settings as marks. */
export class DestinationHistory extends Island {
  static override properties = { kind: {}, name: {}, marks: { type: Array } };

  declare kind: Kind;
  declare name: string;
  declare marks: Mark[];

  #columns: Columns | undefined;
  #fault: unknown;
  readonly #again = new Again(this, () => void this.#read());
  #range = chosenRange();
  #second = 0;
  #timer: ReturnType<typeof setInterval> | undefined;

  constructor() {
    super();
    this.marks = [];
    new Follow(this, () => [this.#one, place]);
  }

  get #one(): OneDestination {
    return oneDestination(this.kind, this.name);
  }

  override connectedCallback(): void {
    super.connectedCallback();
    this.#timer = setInterval(() => void (document.hidden || this.#read()), READ_AGAIN_MS);
    void this.#read();
  }

  override disconnectedCallback(): void {
    super.disconnectedCallback();
    clearInterval(this.#timer);
  }

  protected override willUpdate(): void {
    if (this.#range !== chosenRange()) {
      this.#range = chosenRange();
      this.#columns = undefined;
      void this.#read();
    }
    this.#append();
  }

  protected override render() {
    if (this.#one.isMissing) return html`<p class="empty">${say("It does not exist, so there is no history.")}</p>`;
    return html`<h2 class="visually-hidden">${say("History")}</h2>
      <div class="tools"><mom-range-choice></mom-range-choice>
        <span class="quiet">${say("The last 24 hours, kept in memory since the node started.")}</span></div>
      ${this.#fault === undefined
        ? nothing
        : html`<p class="notice" data-tone="bad" role="status">
            <strong>${say("The history could not be loaded.")}</strong> ${inWords(this.#fault)}
            <button type="button" class="link" @click=${() => void this.#read()}>${say("Try again")}</button>
          </p>`}
      <div class="charts" data-old=${this.#fault === undefined ? nothing : "true"}>
        ${PICTURES[this.kind].map(
          ({ heading, unit, lines }, index) =>
            html`<mom-chart
              heading=${heading} unit=${unit} sync="destination" ?unlisted=${index > 0}
              .lines=${lines} .columns=${this.#columns} .marks=${this.marks}
            ></mom-chart>`,
        )}
      </div>`;
  }

  async #read(): Promise<void> {
    if (this.#one.isMissing) return;
    const { window_s, step_s } = spanOf(this.#range);
    try {
      const { t0, step_s: step, series } = await read<Columns>(pathOf(this.kind, this.name, "stats", { window_s, step_s }));
      this.#columns = { t0, step_s: step, series };
      this.#fault = undefined;
      // What was told before is in what was read.
      if (this.#one.now) this.#second = Math.floor(Date.parse(this.#one.now.time) / 1000);
    } catch (fault) {
      this.#fault = this.#one.isMissing ? undefined : fault;
    }
    this.#again.after(this.#fault);
    this.requestUpdate();
  }

  /** Puts the newest second behind what was read. */
  #append(): void {
    const { now } = this.#one;
    if (now === undefined || this.#columns === undefined) return;
    const second = Math.floor(Date.parse(now.time) / 1000);
    if (second <= this.#second) return;
    this.#second = second;
    const counts = { in: now.in_rate, out: now.out_rate, acked: now.acked_rate };
    const { depth, unsettled, delayed, consumers, oldest_s } = now;
    this.#columns = withSecond(this.#columns, second, counts, { depth, unsettled, delayed, consumers, oldest_s });
  }
}

customElements.define("mom-destination-history", DestinationHistory);
