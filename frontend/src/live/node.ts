import { session } from "../services.ts";
import { RANGES, type Range } from "../view/range.ts";
import { drawn, withSecond, type Columns } from "./columns.ts";
import { read } from "./requests.ts";
import { Source } from "./source.ts";

/** The node and its totals. `backlog` and `oldest_s` are without dead letters, which are `dead`. */
export interface NodeFigures {
  name: string;
  connections: number;
  in_rate: number;
  out_rate: number;
  backlog: number;
  unsettled: number;
  oldest_s: number;
  dead: number;
  memory_bytes: number;
  journal_bytes: number;
  destinations: number;
}

interface StatsRow {
  time: string;
  node: NodeFigures;
}

/** Without a word from the broker for so long, it is asked. */
const SILENT_MS = 5_000;
/** Seconds that may be missing between two of them before the past is read again. */
const GAP_S = 3;

/** The node's statistics and their history: loaded once for the range, and continued by the status of each second. */
class NodeHistory extends Source {
  node: NodeFigures | undefined;
  columns: Columns | undefined;
  /** Why the last reading failed; empty when it did not. */
  fault = "";

  #range: Range = "15m";
  #second = 0;
  #heardAt = 0;
  #asked = 0;
  #reading = false;
  #leave: (() => void) | undefined;
  #ticker: ReturnType<typeof setInterval> | undefined;

  override watch(listener: () => void): () => void {
    const unwatch = super.watch(listener);
    if (this.#leave === undefined) this.#begin();
    return () => {
      unwatch();
      if (!this.isFollowed) this.#end();
    };
  }

  /** The columns for charts. */
  get course(): Columns | undefined {
    return this.columns && drawn(this.columns, this.#second);
  }

  /** Shows another piece of the past. */
  choose(range: Range): void {
    if (range === this.#range && (this.columns || this.#reading)) return;
    this.#range = range;
    this.columns = undefined;
    void this.again();
  }

  /** Reads the past now. */
  async again(): Promise<void> {
    const number = ++this.#asked;
    this.#reading = true;
    try {
      const answer = await read<StatsRow & Columns>("node/stats", RANGES[this.#range]);
      if (number !== this.#asked) return;
      this.columns = { t0: answer.t0, step_s: answer.step_s, series: answer.series };
      this.node = answer.node;
      this.#second = Math.floor(Date.parse(answer.time) / 1000);
      this.#heardAt = Date.now();
      this.fault = "";
    } catch (fault) {
      if (number !== this.#asked) return;
      this.fault = fault instanceof Error ? fault.message : String(fault);
    }
    this.#reading = false;
    this.changed();
  }

  #begin(): void {
    this.#leave = session.subscribe("/topic/$mom.node", (body) => this.#hear(JSON.parse(body) as StatsRow));
    this.#ticker = setInterval(() => {
      if (!document.hidden && Date.now() - this.#heardAt > SILENT_MS) void this.again();
    }, SILENT_MS);
    void this.again();
  }

  #end(): void {
    this.#leave?.();
    this.#leave = undefined;
    clearInterval(this.#ticker);
  }

  #hear({ time, node }: StatsRow): void {
    const second = Math.floor(Date.parse(time) / 1000);
    this.#heardAt = Date.now();
    this.node = node;
    if (this.columns && second > this.#second) {
      if (second - this.#second > GAP_S) void this.again();
      const { in_rate, out_rate, backlog, unsettled, dead, connections, oldest_s } = node;
      const gauges = { backlog, unsettled, dead, connections, oldest_s };
      this.columns = withSecond(this.columns, second, { in: in_rate, out: out_rate }, gauges);
    }
    this.#second = second;
    this.changed();
  }
}

/** Active while it has observers. */
export const nodeHistory = new NodeHistory();
