import { html, nothing, type TemplateResult } from "lit";
import { Follow } from "../live/source.ts";
import { read } from "../live/requests.ts";
import { gettext, ngettext } from "../gettext.ts";
import { nodeStatus, session } from "../services.ts";
import type { Alert } from "../view/alert.ts";
import type { Sign } from "../view/sign.ts";
import { fullTime } from "../view/format.ts";
import { Island } from "./island.ts";
import { iconView } from "../view/icon.ts";

const { basePath = "/" } = document.body.dataset;
const TICK_MS = 1_000;
/** Short interruptions are not reported. */
const SHOW_AFTER_S = 3;

interface Worst extends Sign {
  text: string;
  /** The address of its page, below the console. */
  page: string;
}

/** Banners of every page: no connection, signed out, a resource alarm, the most severe alert. */
export class Banners extends Island {
  static override properties = { alerts: {} };
  /** The address of the page of alerts, for users who may see it. */
  declare alerts: string;

  #ticker: ReturnType<typeof setInterval> | undefined;
  /** The most severe alert. */
  #worst: Worst | undefined;
  #counted: number | undefined;

  constructor() {
    super();
    new Follow(this, () => [session, nodeStatus]);
  }

  override connectedCallback(): void {
    super.connectedCallback();
    this.#ticker = setInterval(() => this.requestUpdate(), TICK_MS);
  }

  override disconnectedCallback(): void {
    super.disconnectedCallback();
    clearInterval(this.#ticker);
  }

  protected override updated(): void {
    const number = nodeStatus.node?.alerts ?? 0;
    // The line that the page came with is kept until it is known what stands in it.
    if (nodeStatus.node && number === 0) delete this.dataset.expected;
    if (!this.alerts || number === this.#counted) return;
    this.#counted = number;
    void this.#look(number);
  }

  protected override render() {
    return html`${this.#connection()} ${this.#refusing()} ${this.#attention()}`;
  }

  #connection(): TemplateResult | typeof nothing {
    const { status } = session;
    if (status.kind === "signed out") {
      return line(
        "bad",
        "octagon-alert",
        html`${gettext("You are signed out; this page is no longer updated.")} <a href=${location.href} data-whole>${gettext("Sign in")}</a>`,
      );
    }
    const age = nodeStatus.ageS;
    if (status.kind !== "reconnecting" || (age !== undefined && age < SHOW_AFTER_S)) return nothing;
    const since = nodeStatus.time
      ? gettext("No connection to the broker. The page shows the status at {time} and updates when the broker is available again.", {
          time: fullTime(nodeStatus.time),
        })
      : gettext("No connection to the broker yet.");
    return line("bad", "octagon-alert", html`${since}`);
  }

  #refusing(): TemplateResult | typeof nothing {
    const alarm = nodeStatus.node?.resource_alarm;
    return alarm ? line("bad", "octagon-alert", html`${gettext("The broker does not accept messages: {why}.", { why: alarm })}`) : nothing;
  }

  #attention(): TemplateResult | typeof nothing {
    const alert = this.#worst;
    if (!alert) return nothing;
    const others = (this.#counted ?? 1) - 1;
    return line(
      alert.tone,
      alert.icon,
      html`<span class="caption" title=${alert.text}>${alert.text}</span> <a href=${`${basePath}console/${alert.page}`}>${gettext("Open")}</a>
      ${others > 0 ? html`<a class="others" href=${this.alerts}>${ngettext("and {count} other", "and {count} others", others)}</a>` : nothing}`,
    );
  }

  async #look(number: number): Promise<void> {
    try {
      this.#worst = number > 0 ? await worst() : undefined;
    } catch {
      this.#worst = undefined;
    }
    this.requestUpdate();
  }
}

async function worst(): Promise<Worst | undefined> {
  const [found] = (await read<{ items: Alert[] }>("alerts", { state: "firing", limit: 1 })).items;
  if (found === undefined) return undefined;
  // The sentences of alerts are loaded only when one fires.
  const { sentenceOf, signOf } = await import("../view/alert.ts");
  return { ...signOf(found), text: sentenceOf(found), page: found.page };
}

/** A banner. */
export function line(tone: string, icon: string, text: TemplateResult): TemplateResult {
  return html`<div class="banner" data-tone=${tone} role="status">${iconView(icon)}<span>${text}</span></div>`;
}

customElements.define("mom-banners", Banners);
