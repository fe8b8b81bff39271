import { html, nothing } from "lit";
import { Follow } from "../live/source.ts";
import { duration } from "../view/format.ts";
import { say } from "../say.ts";
import { Island } from "./island.ts";
import { pulse, session } from "../services.ts";

const TICK_MS = 1_000;
/** With a word from the broker younger than this the next one is awaited: it draws the pill by itself. */
const AWAITED_S = 1.5;

/** Says how old the numbers on the page are, and dims them all when they are no longer true. */
export class LivePill extends Island {
  #ticker: ReturnType<typeof setInterval> | undefined;

  constructor() {
    super();
    new Follow(this, () => [session, pulse]);
  }

  override connectedCallback(): void {
    super.connectedCallback();
    this.#ticker = setInterval(() => this.#tick(), TICK_MS);
  }

  override disconnectedCallback(): void {
    super.disconnectedCallback();
    clearInterval(this.#ticker);
  }

  /** What the broker tells each second draws the pill, together with all else that it changes, in one frame. */
  #tick(): void {
    if (session.status.kind !== "live" || (pulse.ageS ?? Infinity) > AWAITED_S) this.requestUpdate();
  }

  protected override render() {
    document.documentElement.dataset.freshness = pulse.freshness;
    const { tone, text } = this.#say();
    const role = tone === "bad" ? "alert" : nothing;
    return html`<span class="pill" role=${role} data-tone=${tone}>
      <span class="dot" aria-hidden="true"></span><span class="says">${text}</span>
    </span>`;
  }

  #say(): { tone: string; text: string | ReturnType<typeof html> } {
    const { status } = session;
    const age = pulse.ageS;
    switch (status.kind) {
      case "connecting":
        return { tone: "quiet", text: say("connecting") };
      case "live":
        if (age === undefined || pulse.freshness !== "fresh") return { tone: "warn", text: say("catching up") };
        return { tone: "good", text: pulse.polled ? say("updated every 5 s") : say("live {age}", { age: duration(age) }) };
      case "reconnecting": {
        const left = Math.max(0, Math.ceil((status.due - Date.now()) / 1000));
        const next = left > 0 ? say("next in {left} s", { left }) : say("now");
        return { tone: "warn", text: say("reconnecting (try {attempt}, {next})", { attempt: status.attempt, next }) };
      }
      case "paused":
        return { tone: "quiet", text: say("paused (tab hidden)") };
      case "refused":
        return { tone: "bad", text: say("refused: {why}", { why: status.problem.detail || status.problem.title }) };
      case "signed out":
        return { tone: "bad", text: html`${say("signed out")} · <a href=${location.href} data-whole>${say("sign in")}</a>` };
    }
  }
}

customElements.define("mom-live-pill", LivePill);
