import { html, nothing } from "lit";
import type { Session } from "../live/session.ts";
import { Follow } from "../live/source.ts";
import type { Statistics } from "../live/statistics.ts";
import { duration } from "../view/format.ts";
import { Island } from "./island.ts";

const TICK_MS = 500;

/** Says how old the numbers on the page are, and dims them all when they are no longer true. */
export class LivePill extends Island {
  declare session: Session;
  declare statistics: Statistics;

  #ticker: ReturnType<typeof setInterval> | undefined;

  constructor() {
    super();
    new Follow(this, () => [this.session, this.statistics]);
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
    document.documentElement.dataset.freshness = this.statistics.freshness;
    const { tone, text } = this.#say();
    const role = tone === "bad" ? "alert" : nothing;
    return html`<span class="pill" role=${role} data-tone=${tone}>
      <span class="dot" aria-hidden="true"></span><span class="says">${text}</span>
    </span>`;
  }

  #say(): { tone: string; text: string | ReturnType<typeof html> } {
    const { status } = this.session;
    const age = this.statistics.ageS;
    switch (status.kind) {
      case "connecting":
        return { tone: "quiet", text: "connecting" };
      case "live":
        if (age === undefined || this.statistics.freshness !== "fresh") return { tone: "warn", text: "catching up" };
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
