import { html } from "lit";
import { confirmAction } from "../confirm-dialog.ts";
import { request, address, errorText } from "../live/requests.ts";
import { gettext } from "../gettext.ts";
import { showToast } from "../toasts.ts";
import { Island } from "./island.ts";
import type { AutoRefresh } from "./auto-refresh.ts";
import { hintOf, refusal } from "../view/refusal.ts";

/** Actions on the replication offset of another broker's queue: reassign and delete. */
export class OffsetActions extends Island {
  static override properties = { sender: {}, source: {}, owner: {} };
  declare sender: string;
  declare source: string;
  declare owner: string;

  protected override render() {
    const what = gettext("{source} of {sender}", { source: this.source, sender: this.sender });
    return html`<div class="tools">
      <button type="button" ?disabled=${refusal() !== undefined} title=${hintOf()} aria-label=${gettext("Reassign offset: {what}", { what })} @click=${() => this.#handOver()}>${gettext("Reassign offset…")}</button>
      <button type="button" ?disabled=${refusal() !== undefined} title=${hintOf()} aria-label=${gettext("Delete offset: {what}", { what })} @click=${() => this.#forget()}>${gettext("Delete offset…")}</button>
    </div>`;
  }

  get #path(): string {
    return address("forwarding/incoming", { sender: this.sender, source: this.source });
  }

  async #handOver(): Promise<void> {
    const answer = await confirmAction({
      title: gettext("Reassign the offset of {source}", { source: this.source }),
      effect: gettext(
        "{sender} forwards {source} as the user {owner}. After this, another user continues; no message is lost or stored twice. The flow must not run meanwhile.",
        { sender: this.sender, source: this.source, owner: this.owner },
      ),
      button: gettext("Reassign offset"),
      fields: html`<label>${gettext("New user")}<input name="owner" required maxlength="150" autocapitalize="none" spellcheck="false" /></label>`,
    });
    if (answer === null) return;
    const owner = String(answer.fields.get("owner")).trim();
    await this.#do(gettext("The offset of {source} now belongs to {owner}.", { source: this.source, owner }), () =>
      request("PATCH", this.#path, { owner }, answer.reason),
    );
  }

  async #forget(): Promise<void> {
    const answer = await confirmAction({
      title: gettext("Delete the offset of {source}", { source: this.source }),
      effect: gettext(
        "The forwarding progress of {sender} is lost. Messages that were sent but not confirmed can arrive twice. Use this only for brokers that no longer exist.",
        { sender: this.sender },
      ),
      button: gettext("Delete offset"),
      danger: true,
      typed: this.source,
    });
    if (answer === null) return;
    await this.#do(gettext("The offset of {source} was deleted.", { source: this.source }), () => request("DELETE", this.#path, undefined, answer.reason));
  }

  async #do(text: string, action: () => Promise<unknown>): Promise<void> {
    try {
      await action();
      showToast({ text, tone: "good" });
    } catch (fault) {
      showToast({ text: errorText(fault), tone: "bad" });
    }
    await this.closest<AutoRefresh>("mom-auto-refresh")?.refresh();
  }
}

customElements.define("mom-offset-actions", OffsetActions);
