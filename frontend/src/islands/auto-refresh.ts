import htmx from "htmx.org";
import { loadIslands, showScripted } from "../elements.ts";
import { morph } from "../morph.ts";
import { gettext } from "../gettext.ts";
import { UpdateTimer } from "../live/update-timer.ts";
import { session } from "../services.ts";

/** Events within this time cause one update. */
const SOON_MS = 250;
const EVERY_S = 10;

/**
 * A part of a page that is reloaded from the page's address after each event on one of its `topics`, and `every` so many
 * seconds (ten). It needs an id. When loading fails, it is dimmed.
 */
export class AutoRefresh extends HTMLElement {
  #leave: (() => void)[] = [];
  #timer: UpdateTimer | undefined;
  #asked = 0;
  /** The number of the request whose answer is shown. */
  #shown = 0;
  readonly #seen = () => {
    if (!document.hidden) this.#timer?.soon(0);
  };

  connectedCallback(): void {
    const topics = (this.getAttribute("topics") ?? "").split(" ").filter(Boolean);
    const timer = new UpdateTimer(
      () => {
        // Hidden pages are not updated until they are visible again.
        if (!document.hidden) void this.refresh();
      },
      1000 * Number(this.getAttribute("every") ?? EVERY_S),
    );
    this.#timer = timer;
    this.#leave = topics.map((topic) => session.subscribe(`/topic/${topic}`, () => timer.soon(SOON_MS)));
    document.addEventListener("visibilitychange", this.#seen);
    timer.later();
  }

  disconnectedCallback(): void {
    for (const leave of this.#leave) leave();
    document.removeEventListener("visibilitychange", this.#seen);
    this.#timer?.stop();
    this.#shown = this.#asked;
  }

  /** Reload it now. */
  async refresh(): Promise<void> {
    const number = ++this.#asked;
    const reloaded = await this.#read();
    if (number <= this.#shown) return;
    this.#shown = number;
    if (reloaded !== null) {
      showScripted(reloaded);
      morph(this, reloaded);
      htmx.process(this);
      loadIslands(this);
      document.dispatchEvent(new Event("mom:arrived"));
    }
    this.#showStale(reloaded === null);
    this.#timer?.later();
  }

  async #read(): Promise<Element | null> {
    try {
      const reply = await fetch(location.href, { headers: { accept: "text/html" } });
      const page = new DOMParser().parseFromString(await reply.text(), "text/html");
      return page.querySelector(`#${CSS.escape(this.id)}`);
    } catch {
      return null;
    }
  }

  #showStale(old: boolean): void {
    const shown = this.querySelector(":scope > .last-figures");
    if (old) this.dataset.old = "true";
    else delete this.dataset.old;
    if (!old) shown?.remove();
    else if (shown === null) {
      const notice = document.createElement("p");
      notice.className = "notice last-figures";
      notice.dataset.tone = "warn";
      notice.setAttribute("role", "status");
      notice.textContent = gettext("The broker does not respond. The values shown are not up to date.");
      this.prepend(notice);
    }
  }
}

customElements.define("mom-auto-refresh", AutoRefresh);
