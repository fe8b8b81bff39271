/** The message of a permalink, where it is not on the page that is shown. */

import { html, nothing, type TemplateResult } from "lit";
import { gettext } from "../gettext.ts";
import { pageAddress } from "../services.ts";
import { count } from "../view/format.ts";
import { reasonList } from "./reason-list.ts";
import { explain, one, type Explanation, type Message } from "./requests.ts";

/** A message that another broker of the cluster owns. */
interface Elsewhere {
  id: string;
  broker: string;
  explanation: Explanation;
}

export class LinkedMessage {
  #found: Message | Elsewhere | "gone" | undefined;
  /** The id that was requested. */
  #asked = "";

  /** Find the message in the address, unless it is one of `shown`; returns whether anything changed. */
  async follow(queue: string, shown: Message[]): Promise<boolean> {
    const id = pageAddress.get("message");
    if (!id || shown.some((item) => item.id === id)) {
      const had = this.#found !== undefined;
      this.#found = undefined;
      this.#asked = "";
      return had;
    }
    if (this.#asked === id) return false;
    this.#asked = id;
    const found = await one(queue, id).catch(() => elsewhere(queue, id));
    if (this.#asked !== id) return false;
    this.#found = found;
    return true;
  }

  render(queue: string, detail: (message: Message) => TemplateResult): TemplateResult | typeof nothing {
    if (this.#found === undefined) return nothing;
    const close = () => pageAddress.go({ message: "" }, { replace: true });
    if (this.#found === "gone") {
      return html`<p class="notice" data-tone="warn">
        ${gettext("Message {id} is no longer in {queue}: it was consumed, moved or deleted.", { id: pageAddress.get("message"), queue })}
        <button type="button" class="link" @click=${close}>${gettext("Show the other messages")}</button>
      </p>`;
    }
    const found = this.#found;
    const isElsewhere = "explanation" in found;
    return html`<section class="apart" aria-label=${gettext("Linked message")}>
      <div class="headline">
        <h2>${isElsewhere ? nothing : html`#${count(found.position)} `}<code>${found.id}</code></h2>
        <button type="button" class="close" aria-label=${gettext("Close")} @click=${close}>✕</button>
      </div>
      ${isElsewhere ? reasonsOf(found) : detail(found)}
    </section>`;
  }
}

/** The message at the broker that owns it, if there is one. */
async function elsewhere(queue: string, id: string): Promise<Elsewhere | "gone"> {
  const explanation = await explain(queue, id).catch(() => undefined);
  return explanation?.broker === undefined ? "gone" : { id, broker: explanation.broker, explanation };
}

function reasonsOf({ broker, explanation }: Elsewhere): TemplateResult {
  return html`<p><span class="tag">${gettext("at {broker}", { broker })}</span>
      ${gettext("Open the console of {broker} to read, move or delete it.", { broker })}</p>
    ${reasonList(explanation.reasons)}`;
}
