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
      <button type="button" class="plain" aria-label=${say("Hand over the mark of {what}", { what })} @click=${() => this.#handOver()}>${say("Hand over…")}</button>
      <button type="button" class="plain" aria-label=${say("Forget the mark of {what}", { what })} @click=${() => this.#forget()}>${say("Forget…")}</button>
    </div>`;
  }

  get #path(): string {
    return address("forwarding/incoming", { sender: this.sender, source: this.source });
  }

  async #handOver(): Promise<void> {
    const answer = await ask({
      title: say("Hand over the mark of {source}", { source: this.source }),
      effect: say("{sender} forwards {source} as {owner}. From now on another user goes on with it; nothing is lost or arrives twice. The flow must not run meanwhile.", { sender: this.sender, source: this.source, owner: this.owner }),
      act: say("Hand over"),
      fields: html`<label>${say("To the user")}<input name="owner" required maxlength="150" autocapitalize="none" spellcheck="false" /></label>`,
    });
    if (answer === null) return;
    const owner = String(answer.fields.get("owner")).trim();
    await this.#do(say("The mark of {source} belongs to {owner}.", { source: this.source, owner }), () =>
      act("PATCH", this.#path, { owner }, answer.reason),
    );
  }

  async #forget(): Promise<void> {
    const answer = await ask({
      title: say("Forget the mark of {source}", { source: this.source }),
      effect: say("How far {sender} has come is no longer known. What it sent and did not hear answered may arrive a second time. Do this for brokers that are gone for good.", { sender: this.sender }),
      act: say("Forget"),
      danger: true,
      typed: this.source,
    });
    if (answer === null) return;
    await this.#do(say("The mark of {source} is forgotten.", { source: this.source }), () => act("DELETE", this.#path, undefined, answer.reason));
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
