import { html, nothing } from "lit";
import { Follow } from "../live/source.ts";
import { duration } from "../view/format.ts";
import { gettext } from "../gettext.ts";
import { Island } from "./island.ts";
import { nodeStatus, session } from "../services.ts";

const TICK_MS = 1_000;
/** With a word from the broker younger than this the next one is awaited: it draws the pill by itself. */
const AWAITED_S = 1.5;

/** Says how old the numbers on the page are, and dims them all when they are no longer true. */
export class LivePill extends Island {
  #ticker: ReturnType<typeof setInterval> | undefined;

  constructor() {
    super();
    new Follow(this, () => [session, nodeStatus]);
  }

  override connectedCallback(): void {
    super.connectedCallback();
    this.#ticker = setInterval(() => this.#tick(), TICK_MS);
  }

  override disconnectedCallback(): void {
    super.disconnectedCallback();
    clearInterval(this.#ticker);
  }

  /** The broker's report of each second updates the pill, in one frame with all other changes. */
  #tick(): void {
    if (session.status.kind !== "live" || (nodeStatus.ageS ?? Infinity) > AWAITED_S) this.requestUpdate();
  }

  protected override render() {
    document.documentElement.dataset.freshness = nodeStatus.freshness;
    const { tone, text } = this.#say();
    const role = tone === "bad" ? "alert" : nothing;
    return html`<span class="pill" role=${role} data-tone=${tone}>
      <span class="dot" aria-hidden="true"></span><span class="caption">${text}</span>
    </span>`;
  }

  #say(): { tone: string; text: string | ReturnType<typeof html> } {
    const { status } = session;
    const age = nodeStatus.ageS;
    switch (status.kind) {
      case "connecting":
        return { tone: "quiet", text: gettext("connecting") };
      case "live":
        if (age === undefined || nodeStatus.freshness !== "fresh") return { tone: "warn", text: gettext("catching up") };
        if (nodeStatus.polled) return { tone: "good", text: gettext("updated every 5 s") };
        return { tone: "good", text: age > AWAITED_S ? gettext("live {age}", { age: duration(age) }) : gettext("live") };
      case "reconnecting": {
        const left = Math.max(0, Math.ceil((status.due - Date.now()) / 1000));
        const next = left > 0 ? gettext("next in {left} s", { left }) : gettext("now");
        return { tone: "warn", text: gettext("reconnecting (try {attempt}, {next})", { attempt: status.attempt, next }) };
      }
      case "paused":
        return { tone: "quiet", text: gettext("paused (tab hidden)") };
      case "refused":
        return { tone: "bad", text: gettext("refused: {why}", { why: status.problem.detail || status.problem.title }) };
      case "signed out":
        return { tone: "bad", text: html`${gettext("signed out")} · <a href=${location.href} data-whole>${gettext("sign in")}</a>` };
    }
  }
}

customElements.define("mom-live-pill", LivePill);
