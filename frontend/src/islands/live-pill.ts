import { html, nothing } from "lit";
import { Follow } from "../live/source.ts";
import { duration } from "../view/format.ts";
import { Island } from "./island.ts";
import { session, statistics } from "../services.ts";

const TICK_MS = 500;

/** Says how old the numbers on the page are, and dims them all when they are no longer true. */
export class LivePill extends Island {
  #ticker: ReturnType<typeof setInterval> | undefined;

  constructor() {
    super();
    new Follow(this, () => [session, statistics]);
  }

  override connectedCallback(): void {
    super.connectedCallback();
    this.#ticker = setInterval(() => this.requestUpdate(), TICK_MS);
  }

  override disconnectedCallback(): void {
    super.disconnectedCallback();
    clearInterval(this.#ticker);
  }

  protected override render() {
    document.documentElement.dataset.freshness = statistics.freshness;
    const { tone, text } = this.#say();
    const role = tone === "bad" ? "alert" : nothing;
    return html`<span class="pill" role=${role} data-tone=${tone}>
      <span class="dot" aria-hidden="true"></span><span class="says">${text}</span>
    </span>`;
  }

  #say(): { tone: string; text: string | ReturnType<typeof html> } {
    const { status } = session;
    const age = statistics.ageS;
    switch (status.kind) {
      case "connecting":
        return { tone: "quiet", text: "connecting" };
      case "live":
        if (age === undefined || statistics.freshness !== "fresh") return { tone: "warn", text: "catching up" };
        return { tone: "good", text: `live ${duration(age)}` };
      case "reconnecting": {
        const left = Math.max(0, Math.ceil((status.due - Date.now()) / 1000));
        const next = left > 0 ? `next ${left} s` : "now";
        return { tone: "warn", text: `reconnecting (try ${status.attempt}, ${next})` };
      }
      case "paused":
        return { tone: "quiet", text: "paused (tab hidden)" };
      case "refused":
        return { tone: "bad", text: `refused: ${status.problem.detail || status.problem.title}` };
      case "signed out":
        return { tone: "bad", text: html`signed out · <a href=${location.href}>sign in</a>` };
    }
  }
}

customElements.define("mom-live-pill", LivePill);
