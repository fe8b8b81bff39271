import { html } from "lit";
import { ask } from "../asking.ts";
import { act, address, inWords } from "../live/requests.ts";
import { say } from "../say.ts";
import { tell } from "../toasts.ts";
import { Island } from "./island.ts";
import type { KeptCurrent } from "./kept-current.ts";

/** What can be done with how far another broker has come with one of its queues: hand it over, or forget it. */
export class MarkActs extends Island {
  static override properties = { sender: {}, source: {}, owner: {} };
  declare sender: string;
  declare source: string;
  declare owner: string;

  protected override render() {
    const what = say("{source} of {sender}", { source: this.source, sender: this.sender });
    return html`<div class="tools">
      <button type="button" class="plain" aria-label=${say("Reassign the offset of {what}", { what })} @click=${() => this.#handOver()}>${say("Reassign offset…")}</button>
      <button type="button" class="plain" aria-label=${say("Delete the offset of {what}", { what })} @click=${() => this.#forget()}>${say("Delete offset…")}</button>
    </div>`;
  }

  get #path(): string {
    return address("forwarding/incoming", { sender: this.sender, source: this.source });
  }

  async #handOver(): Promise<void> {
    const answer = await ask({
      title: say("Reassign the offset of {source}", { source: this.source }),
      effect: say("{sender} forwards {source} as the user {owner}. After this, another user continues; no message is lost or stored twice. The flow must not run meanwhile.", { sender: this.sender, source: this.source, owner: this.owner }),
      act: say("Reassign offset"),
      fields: html`<label>${say("New user")}<input name="owner" required maxlength="150" autocapitalize="none" spellcheck="false" /></label>`,
    });
    if (answer === null) return;
    const owner = String(answer.fields.get("owner")).trim();
    await this.#do(say("The offset of {source} now belongs to {owner}.", { source: this.source, owner }), () =>
      act("PATCH", this.#path, { owner }, answer.reason),
    );
  }

  async #forget(): Promise<void> {
    const answer = await ask({
      title: say("Delete the offset of {source}", { source: this.source }),
      effect: say("The forwarding progress of {sender} is lost. Messages that were sent but not confirmed can arrive twice. Use this only for brokers that no longer exist.", { sender: this.sender }),
      act: say("Delete offset"),
      danger: true,
      typed: this.source,
    });
    if (answer === null) return;
    await this.#do(say("The offset of {source} was deleted.", { source: this.source }), () => act("DELETE", this.#path, undefined, answer.reason));
  }

  async #do(text: string, deed: () => Promise<unknown>): Promise<void> {
    try {
      await deed();
      tell({ text, tone: "good" });
    } catch (fault) {
      tell({ text: inWords(fault), tone: "bad" });
    }
    await this.closest<KeptCurrent>("mom-kept-current")?.refresh();
  }
}

customElements.define("mom-mark-acts", MarkActs);
