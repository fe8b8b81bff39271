import htmx from "htmx.org";
import { loadIslands } from "../elements.ts";
import { morph } from "../morph.ts";
import { gettext } from "../gettext.ts";
import { session } from "../services.ts";

/** What happens close together is drawn once. */
const SOON_MS = 250;
const EVERY_MS = 10_000;

/**
 * A part of a page that is drawn anew by the page's own address whenever something is told on one of its `topics`,
 * and every ten seconds, for ages grow by themselves. It needs an id. What cannot be read anew is dimmed.
 */
export class AutoRefresh extends HTMLElement {
  #leave: (() => void)[] = [];
  #timer: ReturnType<typeof setTimeout> | undefined;
  #asked = 0;
  readonly #seen = () => {
    if (!document.hidden) this.#in(0);
  };

  connectedCallback(): void {
    const topics = (this.getAttribute("topics") ?? "").split(" ").filter(Boolean);
    this.#leave = topics.map((topic) => session.subscribe(`/topic/${topic}`, () => this.#in(SOON_MS)));
    document.addEventListener("visibilitychange", this.#seen);
    this.#in(EVERY_MS);
  }

  disconnectedCallback(): void {
    for (const leave of this.#leave) leave();
    document.removeEventListener("visibilitychange", this.#seen);
    clearTimeout(this.#timer);
    this.#asked += 1;
  }

  /** Draws it anew now. */
  async refresh(): Promise<void> {
    const number = ++this.#asked;
    const wanted = await this.#read();
    if (number !== this.#asked) return;
    if (wanted !== null) {
      morph(this, wanted);
      htmx.process(this);
      loadIslands(this);
      document.dispatchEvent(new Event("mom:arrived"));
    }
    this.#tell(wanted === null);
    this.#in(EVERY_MS);
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

  #tell(old: boolean): void {
    const told = this.querySelector(":scope > .last-figures");
    if (old) this.dataset.old = "true";
    else delete this.dataset.old;
    if (!old) told?.remove();
    else if (told === null) {
      const notice = document.createElement("p");
      notice.className = "notice last-figures";
      notice.dataset.tone = "warn";
      notice.setAttribute("role", "status");
      notice.textContent = gettext("The broker does not respond. The values shown are not up to date.");
      this.prepend(notice);
    }
  }

  #in(ms: number): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => {
      // A page that nobody sees asks for nothing; it asks again when it is seen.
      if (!document.hidden) void this.refresh();
    }, ms);
  }
}

customElements.define("mom-auto-refresh", AutoRefresh);
