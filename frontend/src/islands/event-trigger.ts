import { session } from "../services.ts";
import { Island } from "./island.ts";

/** What is told close together is read once. */
const SOON_MS = 400;

/**
 * Lets a piece of a page that Django made follow the broker: when something is told on one of `topics` (a list with
 * blanks), it sends the bubbling event `broker-event`, on which htmx reads that piece again. Nothing is read while nobody looks.
 */
export class EventTrigger extends Island {
  static override properties = { topics: {} };

  declare topics: string;

  #leave: (() => void)[] = [];
  #timer: ReturnType<typeof setTimeout> | undefined;

  override connectedCallback(): void {
    super.connectedCallback();
    this.#leave = this.topics.split(" ").map((topic) => session.subscribe(`/topic/${topic}`, () => this.#soon()));
  }

  override disconnectedCallback(): void {
    super.disconnectedCallback();
    for (const leave of this.#leave) leave();
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }

  #soon(): void {
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined;
      if (!document.hidden) this.dispatchEvent(new CustomEvent("broker-event", { bubbles: true }));
    }, SOON_MS);
  }
}

customElements.define("mom-event-trigger", EventTrigger);
