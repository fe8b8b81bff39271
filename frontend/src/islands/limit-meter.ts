import { html, nothing } from "lit";
import { liveDestination } from "../live/destination.ts";
import { Follow } from "../live/source.ts";
import { gettext } from "../gettext.ts";
import { bytes, count } from "../view/format.ts";
import { limitInCluster } from "../view/limit.ts";
import { Island } from "./island.ts";

const NEARLY = 0.8;

/** The used share of a limit of a queue; empty without a limit. */
export class LimitMeter extends Island {
  static override properties = { name: {}, used: {}, limit: {} };

  declare name: string;
  /** A member of `usage`. */
  declare used: "messages" | "bytes" | "producers" | "consumers";
  /** The setting that limits it. */
  declare limit: string;

  constructor() {
    super();
    new Follow(this, () => [liveDestination("queue", this.name)]);
  }

  protected override render() {
    const { facts } = liveDestination("queue", this.name);
    const limit = Number(facts?.settings[this.limit]?.value ?? 0);
    const used = facts?.usage?.[this.used] ?? null;
    if (limit <= 0 || used === null) return nothing;
    const share = used / limit;
    const write = this.used === "bytes" ? bytes : count;
    const text = gettext("{used} of {limit} used", { used: write(used), limit: write(limit) });
    const inCluster = limitInCluster(facts?.limits[this.limit], write);
    return html`<span class="limit-meter" data-tone=${share >= 1 ? "bad" : share >= NEARLY ? "warn" : "good"}>
      <meter min="0" max=${limit} .value=${used} high=${limit * NEARLY} aria-label=${text}></meter>
      <span class="num">${text}</span>${inCluster ? html` <span class="quiet">${inCluster}</span>` : nothing}
    </span>`;
  }
}

customElements.define("mom-limit-meter", LimitMeter);
