import { html, nothing, type TemplateResult } from "lit";
import { repeat } from "lit/directives/repeat.js";
import { confirmAction } from "../confirm-dialog.ts";
import { Polling } from "../live/polling.ts";
import { request, read } from "../live/requests.ts";
import { Follow } from "../live/source.ts";
import { consolePage } from "../pages.ts";
import { gettext, ngettext } from "../gettext.ts";
import { pageAddress } from "../services.ts";
import "../style/overview.css";
import "../style/alerts.css";
import { showToast } from "../toasts.ts";
import { groupsOf, sentenceOfGroup, type AlertGroup } from "../view/alert-groups.ts";
import { sentenceOf, signOf, type Alert } from "../view/alert.ts";
import { count } from "../view/format.ts";
import { moment } from "../view/moment.ts";
import { Island } from "./island.ts";
import { iconView } from "../view/icon.ts";
import { hintOf, refusal } from "../view/refusal.ts";

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

/** Alerts by state, those with a cause in common as one group. The state is in the address. */
export class AlertList extends Island {
  readonly #polling = new Polling<{ items: Alert[] }>(
    this,
    () => read("alerts", { limit: MOST }),
    EVERY_MS,
    () => ["$mom.alert"],
  );

  /** The keys of groups whose alerts are shown. */
  readonly #unfolded = new Set<string>();

  constructor() {
    super();
    new Follow(this, () => [pageAddress]);
  }

  get #shown(): Shown {
    const asked = pageAddress.get("state") as Shown;
    return asked in SHOWN ? asked : "open";
  }

  protected override updated(): void {
    // What stands below appears with it, so that it does not move.
    this.toggleAttribute("data-filled", Boolean(this.#polling.answer ?? this.#polling.fault));
  }

  protected override render() {
    const { answer, fault } = this.#polling;
    if (answer === undefined && !fault) return html`<div class="skeleton" role="status"><div></div><div></div><div></div></div>`;
    const items = answer?.items ?? [];
    const rows = items.filter(({ state }) => SHOWN[this.#shown].states.includes(state));
    const firing = rows.filter(({ state }) => state === "firing");
    return html`
      <div class="tools">
        <div class="segments" role="group" aria-label=${gettext("Alerts by state")}>
          ${(Object.keys(SHOWN) as Shown[]).map((shown) => this.#choice(shown, items))}
        </div>
        ${firing.length > 1 ? html`<span class="spring"></span><button type="button" ?disabled=${refusal() !== undefined} title=${hintOf()} @click=${() => void this.#acknowledge(firing)}>${gettext("Acknowledge all {count}…", { count: count(firing.length) })}</button>` : nothing}
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
            ? html`<p class="card calm inside"><span class="state" data-tone="good">${iconView("circle-check")} ${SHOWN[this.#shown].empty}</span></p>`
            : html`<ul class="card attention alerts">${repeat(
                groupsOf(rows),
                ({ key }) => key,
                (group) => (group.alerts.length > 1 ? this.#group(group) : this.#row(group.alerts[0]!)),
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

  /** Alerts with a cause in common: a sentence for all, and each below it if it is unfolded. */
  #group(group: AlertGroup): TemplateResult {
    const { key, alerts } = group;
    const [newest] = alerts;
    const { tone, icon, word } = signOf(newest!);
    const open = this.#unfolded.has(key);
    return html`<li class="group" data-tone=${tone}>
      <span class="shape" role="img" aria-label=${word}>${iconView(icon)}</span>
      <div>
        <button type="button" class="plain caption" aria-expanded=${open} @click=${() => this.#fold(key)}>${iconView("chevron-right")} ${sentenceOfGroup(group)}</button>
        <p class="quiet since"><span class="tag">${newest!.rule}</span> ${gettext("newest fired")} ${moment(newest!.since)}</p>
      </div>
      <span class="best">${newest!.state === "ended" ? nothing : this.#actions(alerts)}</span>
      ${
        open
          ? html`<ul class="members">${repeat(
              alerts,
              ({ id }) => id,
              (alert) => this.#row(alert),
            )}</ul>`
          : nothing
      }
    </li>`;
  }

  #fold(key: string): void {
    if (!this.#unfolded.delete(key)) this.#unfolded.add(key);
    this.requestUpdate();
  }

  #row(alert: Alert): TemplateResult {
    const { tone, icon, word } = signOf(alert);
    return html`<li data-tone=${tone}>
      <span class="shape" role="img" aria-label=${word}>${iconView(icon)}</span>
      <div>
        <a class="caption" href=${consolePage(alert.page)}>${sentenceOf(alert)}</a>
        <p class="quiet since">
          <span class="tag">${alert.rule}</span> ${gettext("fired")} ${moment(alert.since)}
          ${alert.ended_at ? html`· ${gettext("ended")} ${moment(alert.ended_at)}` : nothing}
          ${alert.by ? html`· ${word}: ${alert.by}${alert.reason ? ` (“${alert.reason}”)` : ""}` : nothing}
          ${alert.until ? html`· ${gettext("until")} ${moment(alert.until)}` : nothing}
        </p>
      </div>
      <span class="best">${alert.state === "ended" ? nothing : this.#actions([alert])}</span>
    </li>`;
  }

  #actions(alerts: Alert[]): TemplateResult {
    if (alerts[0]!.state !== "firing") {
      return html`<button type="button" ?disabled=${refusal() !== undefined} title=${hintOf()} @click=${() => void this.#wake(alerts)}>${gettext("Unsilence")}</button>`;
    }
    return html`<button type="button" ?disabled=${refusal() !== undefined} title=${hintOf()} @click=${() => void this.#acknowledge(alerts)}>${gettext("Acknowledge…")}</button>
      <button type="button" ?disabled=${refusal() !== undefined} title=${hintOf()} @click=${() => void this.#silence(alerts)}>${gettext("Silence…")}</button>`;
  }

  async #acknowledge(alerts: Alert[]): Promise<void> {
    const answer = await confirmAction({
      title: gettext("Acknowledge: {what}", { what: named(alerts) }),
      effect: gettext("Others see that you are working on it. No further notifications until it ends."),
      button: gettext("Acknowledge"),
    });
    if (answer) await this.#say(alerts, "acknowledge", { reason: answer.reason }, gettext("Acknowledged."));
  }

  async #silence(alerts: Alert[]): Promise<void> {
    const answer = await confirmAction({
      title: gettext("Silence: {what}", { what: named(alerts) }),
      effect: gettext("No notifications are sent for this rule and subject during this time."),
      button: gettext("Silence"),
      fields: html`<label>${gettext("Duration")}
        <select name="for_s">${SPANS.map(([seconds, label]) => html`<option value=${seconds} ?selected=${seconds === 3_600}>${label}</option>`)}</select>
      </label>`,
    });
    if (!answer) return;
    const for_s = Number(answer.fields.get("for_s"));
    await this.#say(alerts, "silence", { for_s, reason: answer.reason }, gettext("Silenced."));
  }

  async #wake(alerts: Alert[]): Promise<void> {
    await this.#say(alerts, "silence", { for_s: 0 }, gettext("The alert is no longer silenced."), false);
  }

  /** Says the same of each alert, one after the other; the first that is refused ends it. */
  async #say(alerts: Alert[], action: string, body: object, text: string, undo = true): Promise<void> {
    const done: Alert[] = [];
    try {
      for (const alert of alerts) {
        await request("POST", `alerts/${encodeURIComponent(alert.id)}/${action}`, body);
        done.push(alert);
      }
      showToast({ text, tone: "good", ...(undo && { undo: () => void this.#wake(done) }) });
    } catch (fault) {
      showToast({ text: fault instanceof Error ? fault.message : String(fault), tone: "bad" });
    }
    this.#polling.again();
  }
}

function named(alerts: Alert[]): string {
  return alerts.length === 1 ? sentenceOf(alerts[0]!) : ngettext("{count} alert", "{count} alerts", alerts.length);
}

customElements.define("mom-alert-list", AlertList);
