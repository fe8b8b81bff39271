import { html, nothing, type TemplateResult } from "lit";
import { pageAddress } from "../services.ts";
import { Retry } from "../live/retry.ts";
import { drawn, steps, withSecond, type Columns } from "../live/columns.ts";
import { pathOf, type Kind } from "../destinations/address.ts";
import { liveDestination, type LiveDestination } from "../live/destination.ts";
import { errorText, read } from "../live/requests.ts";
import { Follow } from "../live/source.ts";
import { completed, computedPart, hasValues, readStored, type StoredHistory } from "../live/stored-history.ts";
import { gettext } from "../gettext.ts";
import { ALL, IN_MEMORY, RANGES, chosenRange, type Range } from "../view/range.ts";
import { fullTime } from "../view/format.ts";
import type { ChartLine, ChartMark } from "../view/chart.ts";
import type { Unit } from "../view/unit.ts";
import "./chart.ts";
import { Island } from "./island.ts";
import "./range-choice.ts";

interface Picture {
  heading: string;
  unit: Unit;
  lines: ChartLine[];
}

const DEPTH: Picture = {
  heading: gettext("Messages"),
  unit: "count",
  lines: [
    { key: "depth", label: gettext("ready"), tone: "accent", form: "area" },
    { key: "unsettled", label: gettext("unsettled"), tone: "warn", dashed: true },
  ],
};
const IN: ChartLine = { key: "in", label: gettext("in"), tone: "accent" };
const OUT: ChartLine = { key: "out", label: gettext("out"), tone: "good", dashed: true };
const DEAD: ChartLine = { key: "dead", label: gettext("dead-lettered"), tone: "bad" };
const RATES: Picture = { heading: gettext("Message rates"), unit: "rate", lines: [IN, OUT, DEAD] };
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

// What the data pipeline has stored.
const HOURLY: Picture = {
  heading: gettext("Message rates"),
  unit: "hourly",
  lines: [IN, OUT, { key: "redelivered", label: gettext("redelivered"), tone: "warn", dashed: true }, DEAD],
};
const RETAINED: Picture = { heading: gettext("Message rates"), unit: "hourly", lines: [IN] };
const TIME_LINES: ChartLine[] = [
  { key: "queue_p50_s", label: "p50", tone: "accent" },
  { key: "queue_p95_s", label: "p95", tone: "warn", dashed: true },
  { key: "queue_p99_s", label: "p99", tone: "bad" },
];
const QUEUE_TIMES: Picture = { heading: gettext("Time in the queue, of acknowledged messages"), unit: "seconds", lines: TIME_LINES };
const SLOWEST: Picture = { ...QUEUE_TIMES, heading: gettext("Time in the queue, in the slowest minute of each step") };
const STORED: Record<Kind, Picture[]> = { queue: [HOURLY, SLOWEST], topic: [RETAINED] };
/** The interval of reloading, so that small differences do not add up. */
const READ_AGAIN_MS = 60_000;

/**
 * The history of a destination as charts with a common cursor, and changes of its settings as marks: what the node has in
 * memory, and for longer ranges what the data pipeline has stored.
 */
export class DestinationHistory extends Island {
  static override properties = { kind: {}, name: {}, marks: { type: Array } };

  declare kind: Kind;
  declare name: string;
  declare marks: ChartMark[];

  #columns: Columns | undefined;
  #stored: StoredHistory | undefined;
  #fault: unknown;
  readonly #retry = new Retry(this, () => void this.#read());
  #range = chosenRange(ALL);
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
    if (this.#range !== chosenRange(ALL)) {
      this.#range = chosenRange(ALL);
      this.#columns = this.#stored = undefined;
      void this.#read();
    }
    this.#append();
  }

  protected override render() {
    const isStored = !isInMemory(this.#range);
    if (this.#one.isMissing && !isStored && !this.#hasStored) {
      return html`<p class="empty">${gettext("It does not exist, so there is no history.")}</p>`;
    }
    return html`<h2 class="visually-hidden">${gettext("History")}</h2>
      <div class="tools"><mom-range-choice .ranges=${this.#ranges}></mom-range-choice><span class="quiet">${this.#about(isStored)}</span></div>
      ${
        this.#fault === undefined
          ? nothing
          : html`<p class="notice" data-tone="bad" role="status">
            <strong>${gettext("The history could not be loaded.")}</strong> ${errorText(this.#fault)}
            <button type="button" class="link" @click=${() => void this.#read()}>${gettext("Try again")}</button>
          </p>`
      }
      <div class="charts" data-old=${this.#fault === undefined ? nothing : "true"}>
        ${isStored ? this.#charts(STORED[this.kind], this.#stored) : this.#charts(PICTURES[this.kind], this.#whole)}
        ${isStored ? nothing : this.#queueTimes()}
      </div>`;
  }

  /** The ranges that can be chosen, and the one that is. */
  get #ranges(): readonly Range[] {
    const from = this.#stored?.stored_from;
    const known = from ? rangesSince(Date.parse(from) / 1000) : IN_MEMORY;
    return ALL.filter((range) => known.includes(range) || range === this.#range);
  }

  get #hasStored(): boolean {
    return this.#stored?.stored_from != null;
  }

  /** What is in memory, completed by what is stored. */
  get #whole(): Columns | undefined {
    if (this.#columns === undefined) return undefined;
    // Before the first second is heard, the last step counts as one that is not over.
    const { t0, step_s } = this.#columns;
    const known = drawn(this.#columns, this.#second || t0 + (steps(this.#columns) - 1) * step_s);
    return this.#stored ? completed(known, this.#stored) : known;
  }

  #charts(pictures: Picture[], columns: Columns | undefined): TemplateResult[] {
    return pictures.map((picture, index) => this.#chart(picture, columns, index > 0));
  }

  #chart({ heading, unit, lines }: Picture, columns: Columns | undefined, unlisted: boolean): TemplateResult {
    const empty = isInMemory(this.#range) ? "" : gettext("Nothing of this time was computed.");
    return html`<mom-chart
      heading=${heading} unit=${unit} sync="destination" empty=${empty} ?unlisted=${unlisted}
      .lines=${lines} .columns=${columns} .marks=${this.marks}
    ></mom-chart>`;
  }

  /** Times in the queue below what is in memory, of ranges with the same steps. */
  #queueTimes(): TemplateResult | typeof nothing {
    if (this.#stored === undefined || !hasValues(this.#stored, "queue_p50_s")) return nothing;
    if (this.#range === "3h") return this.#chart(QUEUE_TIMES, this.#stored, true);
    return this.#range === "24h" ? this.#chart(SLOWEST, this.#stored, true) : nothing;
  }

  /** Where the figures come from, and what is missing. */
  #about(isStored: boolean): string {
    const from = this.#stored?.stored_from;
    const sentences: string[] = [];
    if (!isStored) {
      sentences.push(gettext("The last 24 hours, kept in memory since the node started."));
      if (from && this.#range !== "15m") {
        sentences.push(gettext("Rates of before that are computed by the data pipeline, from {from} on.", { from: fullTime(from) }));
      }
    } else if (from && this.#stored?.stored_to) {
      sentences.push(gettext("Computed by the data pipeline, from {from} to {to}.", { from: fullTime(from), to: fullTime(this.#stored.stored_to) }));
      const percent = Math.floor(100 * computedPart(this.#stored));
      if (percent < 100) sentences.push(gettext("{part} of this time is known; gaps were not computed.", { part: `${percent} %` }));
      if (this.kind === "topic") sentences.push(gettext("Of a topic, only messages that it retains are known."));
    } else if (this.#stored) {
      sentences.push(gettext("The data pipeline has computed nothing of it: run mom pipeline run statistics."));
    }
    return sentences.join(" ");
  }

  async #read(): Promise<void> {
    const range = this.#range;
    const { window_s, step_s } = RANGES[range];
    try {
      // Of the shortest range only the time that is stored matters.
      const stored = await readStored(this.kind, this.name, Math.max(window_s, 3600), Math.max(step_s, 60));
      const columns = isInMemory(range) && !this.#one.isMissing ? await this.#readMemory(window_s, step_s) : undefined;
      if (range !== this.#range) return;
      this.#stored = stored;
      this.#columns = columns;
      this.#fault = undefined;
    } catch (fault) {
      this.#fault = this.#one.isMissing ? undefined : fault;
    }
    this.#retry.after(this.#fault);
    this.requestUpdate();
  }

  async #readMemory(window_s: number, step_s: number): Promise<Columns> {
    const { t0, step_s: step, series } = await read<Columns>(pathOf(this.kind, this.name, "stats", { window_s, step_s }));
    // Earlier updates are contained in the response.
    if (this.#one.now) this.#second = Math.floor(Date.parse(this.#one.now.time) / 1000);
    return { t0, step_s: step, series };
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

function isInMemory(range: Range): boolean {
  return IN_MEMORY.includes(range);
}

/** The ranges that figures from `first_s` (seconds since 1970) on reach into, beyond those in memory. */
function rangesSince(first_s: number): Range[] {
  const known_s = Date.now() / 1000 - first_s;
  return ALL.filter((range, index) => isInMemory(range) || RANGES[ALL[index - 1]!].window_s < known_s);
}

customElements.define("mom-destination-history", DestinationHistory);
