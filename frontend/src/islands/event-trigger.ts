import { session } from "../services.ts";
import { Island } from "./island.ts";

/** Events within this time cause one update. */
const SOON_MS = 400;

/**
 * Keeps a server-rendered part of a page current: after an event on one of `topics` (separated by spaces), it
 * dispatches the bubbling event `broker-event`, on which htmx reloads that part. Hidden pages are updated when they are seen.
 */
export class EventTrigger extends Island {
  static override properties = { topics: {} };

  declare topics: string;

  #leave: (() => void)[] = [];
  #timer: ReturnType<typeof setTimeout> | undefined;
  /** Whether something has happened that is not shown. */
  #isBehind = false;
  readonly #show = () => {
    if (document.hidden || !this.#isBehind) return;
    this.#isBehind = false;
    this.dispatchEvent(new CustomEvent("broker-event", { bubbles: true }));
  };

  override connectedCallback(): void {
    super.connectedCallback();
    document.addEventListener("visibilitychange", this.#show);
    this.#leave = this.topics.split(" ").map((topic) => session.subscribe(`/topic/${topic}`, () => this.#soon()));
  }

  override disconnectedCallback(): void {
    super.disconnectedCallback();
    document.removeEventListener("visibilitychange", this.#show);
    for (const leave of this.#leave) leave();
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }

  #soon(): void {
    this.#isBehind = true;
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined;
      this.#show();
    }, SOON_MS);
  }
}

customElements.define("mom-event-trigger", EventTrigger);
