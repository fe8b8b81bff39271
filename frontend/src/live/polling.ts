import type { ReactiveController, ReactiveControllerHost } from "lit";
import { session } from "../services.ts";
import { RequestRefused } from "./rest.ts";

const RETRY_MS = 5_000;
/** Events within this time cause one request. */
const SOON_MS = 300;

/**
 * Polls while its element is on the page and the page is visible; immediately after an event on one of `topics`. The
 * last good answer is kept when a request fails.
 */
export class Polling<Answer> implements ReactiveController {
  answer: Answer | undefined;
  /** Why the last reading failed; empty when it did not. */
  fault = "";
  /** Whether the broker refused the request, so that it is not repeated. */
  refused = false;

  #timer: ReturnType<typeof setTimeout> | undefined;
  #leave: (() => void)[] = [];
  #asked = 0;
  readonly #seen = () => {
    if (!document.hidden) this.again();
  };

  constructor(
    private readonly host: ReactiveControllerHost,
    private readonly read: () => Promise<Answer>,
    private readonly every_ms: number,
    private readonly topics: () => string[] = () => [],
  ) {
    host.addController(this);
  }

  hostConnected(): void {
    document.addEventListener("visibilitychange", this.#seen);
    this.#leave = this.topics().map((topic) => session.subscribe(`/topic/${topic}`, () => this.#in(SOON_MS, true)));
    this.again();
  }

  hostDisconnected(): void {
    document.removeEventListener("visibilitychange", this.#seen);
    for (const leave of this.#leave) leave();
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#asked += 1;
  }

  /** Reads now: what is asked for has changed, or something was done to it. */
  again(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    void this.#ask();
  }

  /** Forgets the answer, which is one to another question, and reads now. */
  restart(): void {
    this.answer = undefined;
    this.again();
  }

  async #ask(): Promise<void> {
    const number = ++this.#asked;
    try {
      const answer = await this.read();
      if (number !== this.#asked) return;
      this.answer = answer;
      this.fault = "";
      this.refused = false;
    } catch (fault) {
      if (number !== this.#asked) return;
      this.fault = fault instanceof Error ? fault.message : String(fault);
      this.refused = fault instanceof RequestRefused && [403, 404].includes(fault.problem.status ?? 0);
    }
    this.host.requestUpdate();
    if (!this.refused) this.#in(this.fault ? RETRY_MS : this.every_ms, false);
  }

  #in(ms: number, sooner: boolean): void {
    if (sooner) clearTimeout(this.#timer);
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      // Hidden pages are not updated until they are visible again.
      if (!document.hidden) this.again();
    }, ms);
  }
}
