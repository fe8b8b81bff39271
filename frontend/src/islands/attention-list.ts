import { html, nothing, type TemplateResult } from "lit";
import { repeat } from "lit/directives/repeat.js";
import { Polling } from "../live/polling.ts";
import { request, read } from "../live/requests.ts";
import { consolePage, pageOf } from "../pages.ts";
import { gettext, ngettext } from "../gettext.ts";
import { showToast } from "../toasts.ts";
import { sentenceOf, signOf, type Alert } from "../view/alert.ts";
import { moment } from "../view/moment.ts";
import { signView } from "../view/sign.ts";
import { Island } from "./island.ts";
import { iconView } from "../view/icon.ts";
import { hintOf, refusal } from "../view/refusal.ts";

const SHOWN = 6;
const EVERY_MS = 30_000;

interface Answer {
  items: Alert[];
  approx_total: number;
}

/** Open alerts, most severe first, each with its most useful action. */
export class AttentionList extends Island {
  readonly #polling = new Polling<Answer>(
    this,
    () => read("alerts", { state: "firing,acknowledged", limit: SHOWN }),
    EVERY_MS,
    () => ["$mom.alert"],
  );

  protected override render() {
    const { answer, fault, refused } = this.#polling;
    if (refused) return html`<p class="inside quiet">${gettext("Only administrators can see alerts.")}</p>`;
    if (answer === undefined) {
      return fault ? this.#failed(fault) : nothing;
    }
    if (answer.items.length === 0) {
      return html`<p class="inside calm">${signView({ tone: "good", icon: "circle-check", word: gettext("No alerts") })}
        <span class="quiet">${gettext("Nothing needs attention now.")}</span></p>`;
    }
    const more = answer.approx_total - answer.items.length;
    return html`
      ${fault ? this.#failed(fault) : nothing}
      <div role="status"><ul class="attention">
        ${repeat(
          answer.items,
          ({ id }) => id,
          (alert) => this.#row(alert),
        )}
      </ul></div>
      ${more > 0 ? html`<footer><a href=${consolePage("alerts/")}>${ngettext("{count} more", "{count} more", more)}</a></footer>` : nothing}
    `;
  }

  protected override updated(): void {
    const { answer, fault, refused } = this.#polling;
    if (answer || fault || refused) this.replacePlaceholder();
  }

  #failed(fault: string): TemplateResult {
    return html`<p class="notice" data-tone="warn" role="status">
      ${fault} <button type="button" class="link" @click=${() => this.#polling.again()}>${gettext("Try again")}</button>
    </p>`;
  }

  #row(alert: Alert): TemplateResult {
    const { tone, icon, word } = signOf(alert);
    return html`<li data-tone=${tone}>
      <span class="shape" role="img" aria-label=${word}>${iconView(icon)}</span>
      <a class="caption" href=${consolePage(alert.page)} title=${sentenceOf(alert)}>${sentenceOf(alert)}</a>
      <span class="quiet since">${alert.by ? gettext("acknowledged by {who}", { who: alert.by }) : nothing} ${moment(alert.since)}</span>
      <span class="best">${this.#best(alert)}</span>
    </li>`;
  }

  /** The most useful action. */
  #best(alert: Alert): TemplateResult {
    switch (alert.condition) {
      case "bridge-stalled":
        return html`<button type="button" ?disabled=${refusal() !== undefined} title=${hintOf()} @click=${() => void this.#retry(alert)}>${gettext("Retry now")}</button>`;
      case "dead-letters":
        return html`<a class="button" href=${pageOf(alert.subject, "messages")}>${gettext("View messages")}</a>`;
      case "oldest":
      case "no-consumer":
        return html`<a class="button" href=${pageOf(alert.subject, "consumers")}>${gettext("Consumers")}</a>`;
      case "configuration":
        return html`<a class="button" href=${consolePage("configuration/files")}>${gettext("View messages")}</a>`;
      default:
        return html`<a class="button" href=${consolePage(alert.page)}>${gettext("Open")}</a>`;
    }
  }

  async #retry({ subject }: Alert): Promise<void> {
    const link = { href: consolePage(`bridges/one?${new URLSearchParams({ name: subject })}`), text: gettext("Open") };
    try {
      await request("POST", `bridges/${encodeURIComponent(subject)}/retry`, {});
      showToast({ text: gettext("Bridge {name} is retrying now.", { name: subject }), tone: "good", link });
    } catch (fault) {
      showToast({ text: fault instanceof Error ? fault.message : String(fault), tone: "bad", link });
    }
  }
}

customElements.define("mom-attention-list", AttentionList);
