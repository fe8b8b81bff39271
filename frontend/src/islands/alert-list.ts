import { html, nothing, type TemplateResult } from "lit";
import { repeat } from "lit/directives/repeat.js";
import { confirmAction } from "../confirm-dialog.ts";
import { Polling } from "../live/polling.ts";
import { request, read } from "../live/requests.ts";
import { Follow } from "../live/source.ts";
import { consolePage } from "../pages.ts";
import { gettext } from "../gettext.ts";
import { pageAddress } from "../services.ts";
import "../style/overview.css";
import { showToast } from "../toasts.ts";
import { sentenceOf, signOf, type Alert } from "../view/alert.ts";
import { count } from "../view/format.ts";
import { moment } from "../view/moment.ts";
import { Island } from "./island.ts";

const EVERY_MS = 10_000;
const MOST = 500;

type Shown = "open" | "firing" | "acknowledged" | "silenced" | "ended";

const SHOWN: Record<Shown, { states: Alert["state"][]; label: string; empty: string }> = {
  open: {
    states: ["firing", "acknowledged", "silenced"],
    label: gettext("open"),
    empty: gettext("No open alerts."),
  },
  firing: { states: ["firing"], label: gettext("firing"), empty: gettext("No alert is firing.") },
  acknowledged: { states: ["acknowledged"], label: gettext("acknowledged"), empty: gettext("No alert is acknowledged.") },
  silenced: { states: ["silenced"], label: gettext("silenced"), empty: gettext("No alert is silenced.") },
  ended: { states: ["ended"], label: gettext("recent"), empty: gettext("No alert has ended recently.") },
};
const SPANS: [seconds: number, label: string][] = [
  [900, gettext("15 minutes")],
  [3_600, gettext("1 hour")],
  [14_400, gettext("4 hours")],
  [86_400, gettext("1 day")],
  [604_800, gettext("1 week")],
];

/** Alerts by state: open, firing, acknowledged, silenced, recent. The state is in the address. */
export class AlertList extends Island {
  readonly #polling = new Polling<{ items: Alert[] }>(
    this,
    () => read("alerts", { limit: MOST }),
    EVERY_MS,
    () => ["$mom.alert"],
  );

  constructor() {
    super();
    new Follow(this, () => [pageAddress]);
  }

  get #shown(): Shown {
    const asked = pageAddress.get("state") as Shown;
    return asked in SHOWN ? asked : "open";
  }

  protected override render() {
    const { answer, fault } = this.#polling;
    if (answer === undefined && !fault) return html`<div class="skeleton" role="status"><div></div><div></div><div></div></div>`;
    const items = answer?.items ?? [];
    const rows = items.filter(({ state }) => SHOWN[this.#shown].states.includes(state));
    return html`
      <div class="tools">
        <div class="segments" role="group" aria-label=${gettext("Alerts by state")}>
          ${(Object.keys(SHOWN) as Shown[]).map((shown) => this.#choice(shown, items))}
        </div>
      </div>
      ${
        fault
          ? html`<p class="notice" data-tone=${answer ? "warn" : "bad"} role="status">
            ${answer ? gettext("The alerts shown are not up to date: {fault}", { fault }) : fault}
            <button type="button" class="link" @click=${() => this.#polling.again()}>${gettext("Try again")}</button>
          </p>`
          : nothing
      }
      ${
        answer === undefined
          ? nothing
          : rows.length === 0
            ? html`<p class="card calm inside"><span class="state" data-tone="good"><span aria-hidden="true">●</span> ${SHOWN[this.#shown].empty}</span></p>`
            : html`<ul class="card attention alerts">${repeat(
                rows,
                ({ id }) => id,
                (alert) => this.#row(alert),
              )}</ul>`
      }
    `;
  }

  #choice(shown: Shown, items: Alert[]): TemplateResult {
    const found = items.filter(({ state }) => SHOWN[shown].states.includes(state)).length;
    return html`<button
      type="button"
      aria-pressed=${shown === this.#shown}
      @click=${() => pageAddress.go({ state: shown === "open" ? null : shown })}
    >${SHOWN[shown].label} <span class="quiet">${count(found)}</span></button>`;
  }

  #row(alert: Alert): TemplateResult {
    const { tone, shape, word } = signOf(alert);
    return html`<li data-tone=${tone}>
      <span class="shape" role="img" aria-label=${word}>${shape}</span>
      <div>
        <a class="caption" href=${consolePage(alert.page)}>${sentenceOf(alert)}</a>
        <p class="quiet since">
          <span class="tag">${alert.rule}</span> ${gettext("fired")} ${moment(alert.since)}
          ${alert.ended_at ? html`· ${gettext("ended")} ${moment(alert.ended_at)}` : nothing}
          ${alert.by ? html`· ${word}: ${alert.by}${alert.reason ? ` (“${alert.reason}”)` : ""}` : nothing}
          ${alert.until ? html`· ${gettext("until")} ${moment(alert.until)}` : nothing}
        </p>
      </div>
      <span class="best">${alert.state === "ended" ? nothing : this.#actions(alert)}</span>
    </li>`;
  }

  #actions(alert: Alert): TemplateResult {
    if (alert.state !== "firing") {
      return html`<button type="button" @click=${() => void this.#wake(alert)}>${gettext("Unsilence")}</button>`;
    }
    return html`<button type="button" @click=${() => void this.#acknowledge(alert)}>${gettext("Acknowledge…")}</button>
      <button type="button" @click=${() => void this.#silence(alert)}>${gettext("Silence…")}</button>`;
  }

  async #acknowledge(alert: Alert): Promise<void> {
    const answer = await confirmAction({
      title: gettext("Acknowledge: {what}", { what: sentenceOf(alert) }),
      effect: gettext("Others see that you are working on it. No further notifications until it ends."),
      button: gettext("Acknowledge"),
    });
    if (answer) await this.#say(alert, "acknowledge", { reason: answer.reason }, gettext("Acknowledged."));
  }

  async #silence(alert: Alert): Promise<void> {
    const answer = await confirmAction({
      title: gettext("Silence: {what}", { what: sentenceOf(alert) }),
      effect: gettext("No notifications are sent for this rule and subject during this time."),
      button: gettext("Silence"),
      fields: html`<label>${gettext("Duration")}
        <select name="for_s">${SPANS.map(([seconds, label]) => html`<option value=${seconds} ?selected=${seconds === 3_600}>${label}</option>`)}</select>
      </label>`,
    });
    if (!answer) return;
    const for_s = Number(answer.fields.get("for_s"));
    await this.#say(alert, "silence", { for_s, reason: answer.reason }, gettext("Silenced."));
  }

  async #wake(alert: Alert): Promise<void> {
    await this.#say(alert, "silence", { for_s: 0 }, gettext("The alert is no longer silenced."), false);
  }

  async #say(alert: Alert, action: string, body: object, text: string, undo = true): Promise<void> {
    try {
      await request("POST", `alerts/${encodeURIComponent(alert.id)}/${action}`, body);
      showToast({ text, tone: "good", ...(undo && { undo: () => void this.#wake(alert) }) });
    } catch (fault) {
      showToast({ text: fault instanceof Error ? fault.message : String(fault), tone: "bad" });
    }
    this.#polling.again();
  }
}

customElements.define("mom-alert-list", AlertList);
