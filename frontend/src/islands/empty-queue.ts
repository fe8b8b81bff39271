import { html, nothing, type TemplateResult } from "lit";
import { liveDestination } from "../live/destination.ts";
import { Follow } from "../live/source.ts";
import { gettext, ngettext } from "../gettext.ts";
import { pageOf } from "../pages.ts";
import { server } from "../services.ts";
import { iconView } from "../view/icon.ts";
import { publishSnippets } from "../view/snippets.ts";
import { Island } from "./island.ts";
import { snippetBlock } from "./snippet-block.ts";

/**
 * What is shown instead of the messages of an empty queue: how its first one is sent, or, once it is in use, how to see
 * what passes. Events: `reload`, to read the messages that are there now, and `tail`, to show them as they arrive.
 */
export class EmptyQueue extends Island {
  static override properties = { queue: {} };

  /** Without its kind: `orders`. */
  declare queue: string;

  constructor() {
    super();
    new Follow(this, () => [liveDestination("queue", this.queue)]);
  }

  protected override render() {
    const { facts, now, fault, isMissing } = liveDestination("queue", this.queue);
    if (isMissing) return this.#unused(gettext("The queue {queue} does not exist yet. It is created by its first message.", { queue: this.queue }));
    if (facts === undefined && fault === undefined) return nothing;
    const { depth = 0, unsettled = 0, consumers = 0, published = 0 } = facts ?? {};
    const isUsed = published > 0 || consumers > 0 || (now?.in_rate ?? 0) > 0;
    return isUsed ? this.#used(depth + unsettled, consumers, published) : this.#unused(gettext("{queue} is empty.", { queue: this.queue }));
  }

  /** In use, and empty when it was read; its parts stay where they are while messages come and go. */
  #used(there: number, consumers: number, published: number): TemplateResult {
    return html`<div class="empty">
      ${iconView("inbox")}
      <h2>${there ? ngettext("{count} message now", "{count} messages now", there) : gettext("Empty now")}</h2>
      <p>
        ${
          consumers
            ? gettext("Consumers take each message when it arrives. Tail shows what passes, and takes nothing.")
            : ngettext("{count} message was published to it so far.", "{count} messages were published to it so far.", published)
        }
      </p>
      <div class="tools">
        <button type="button" @click=${() => this.#ask("tail")}>${iconView("play")} ${gettext("Tail")}</button>
        <button type="button" @click=${() => this.#ask("reload")}>${gettext("Refresh")}</button>
      </div>
    </div>`;
  }

  #unused(text: string): TemplateResult {
    return html`<div class="empty">
      ${iconView("inbox")}
      <p>${text}</p>
      <a class="button" href=${pageOf(`/queue/${this.queue}`, "publish")}>${gettext("Publish a message")}</a>
      <div class="empty-code">${publishSnippets(`/queue/${this.queue}`, server).map(snippetBlock)}</div>
    </div>`;
  }

  #ask(what: "tail" | "reload"): void {
    this.dispatchEvent(new CustomEvent(what));
  }
}

customElements.define("mom-empty-queue", EmptyQueue);
