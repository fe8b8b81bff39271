import { html, nothing } from "lit";
import { pageAddress } from "../services.ts";
import { Retry } from "../live/retry.ts";
import { withSecond, type Columns } from "../live/columns.ts";
import { liveDestination, pathOf, type Kind, type LiveDestination } from "../live/destination.ts";
import { errorText, read } from "../live/requests.ts";
import { Follow } from "../live/source.ts";
import { gettext } from "../gettext.ts";
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
  heading: gettext("Messages"),
  unit: "count",
  lines: [
    { key: "depth", label: gettext("ready"), tone: "accent", form: "area" },
    { key: "unsettled", label: gettext("unsettled"), tone: "warn", dashed: true },
  ],
};
const RATES: Picture = {
  heading: gettext("Message rates"),
  unit: "rate",
  lines: [
    { key: "in", label: gettext("in"), tone: "accent" },
    { key: "out", label: gettext("out"), tone: "good", dashed: true },
    { key: "dead", label: gettext("dead-lettered"), tone: "bad" },
  ],
};
const AGE: Picture = {
  heading: gettext("Age of the oldest message"),
  unit: "seconds",
  lines: [{ key: "oldest_s", label: gettext("oldest"), tone: "warn", form: "area" }],
};
const TIMES: Picture = {
  heading: gettext("Wait and processing time (95th percentile)"),
  unit: "seconds",
  lines: [
    { key: "wait_p95_s", label: gettext("from arrival to delivery"), tone: "accent" },
    { key: "hold_p95_s", label: gettext("from delivery to acknowledgement"), tone: "good", dashed: true },
  ],
};
const CONSUMERS: Picture = {
  heading: gettext("Consumers"),
  unit: "count",
  lines: [{ key: "consumers", label: gettext("consumers"), tone: "good", form: "steps" }],
};
const PICTURES: Record<Kind, Picture[]> = {
  queue: [DEPTH, RATES, AGE, TIMES, CONSUMERS],
  topic: [RATES, CONSUMERS],
};
/** The interval of reloading, so that small differences do not add up. */
const READ_AGAIN_MS = 60_000;

/** The history of a destination as charts with a common cursor, and changes of its settings as marks. */
export class DestinationHistory extends Island {
  static override properties = { kind: {}, name: {}, marks: { type: Array } };

  declare kind: Kind;
  declare name: string;
  declare marks: Mark[];

  #columns: Columns | undefined;
  #fault: unknown;
  readonly #retry = new Retry(this, () => void this.#read());
  #range = chosenRange();
  #second = 0;
  #timer: ReturnType<typeof setInterval> | undefined;

  constructor() {
    super();
    this.marks = [];
    new Follow(this, () => [this.#one, pageAddress]);
  }

  get #one(): LiveDestination {
    return liveDestination(this.kind, this.name);
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
    if (this.#one.isMissing) return html`<p class="empty">${gettext("It does not exist, so there is no history.")}</p>`;
    return html`<h2 class="visually-hidden">${gettext("History")}</h2>
      <div class="tools"><mom-range-choice></mom-range-choice>
        <span class="quiet">${gettext("The last 24 hours, kept in memory since the node started.")}</span></div>
      ${this.#fault === undefined
        ? nothing
        : html`<p class="notice" data-tone="bad" role="status">
            <strong>${gettext("The history could not be loaded.")}</strong> ${errorText(this.#fault)}
            <button type="button" class="link" @click=${() => void this.#read()}>${gettext("Try again")}</button>
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
      // Earlier updates are contained in the response.
      if (this.#one.now) this.#second = Math.floor(Date.parse(this.#one.now.time) / 1000);
    } catch (fault) {
      this.#fault = this.#one.isMissing ? undefined : fault;
    }
    this.#retry.after(this.#fault);
    this.requestUpdate();
  }

  /** Append the newest second. */
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
