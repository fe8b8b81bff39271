import { html, nothing, type PropertyValues, type TemplateResult } from "lit";
import { repeat } from "lit/directives/repeat.js";
import { API, address } from "../live/requests.ts";
import { RequestRefused } from "../live/rest.ts";
import { parseProblem } from "../live/problem.ts";
import { parseAnswer } from "../lossless-json.ts";
import type { Message } from "../messages/requests.ts";
import { gettext, ngettext } from "../gettext.ts";
import "../style/messages.css";
import { bodyOf, preview } from "../view/body.ts";
import { count, time } from "../view/format.ts";
import { Island } from "./island.ts";
import { iconView } from "../view/icon.ts";

/** Messages a second that the page asks for, and those that it keeps. */
const CREDIT = 100;
const KEPT = 500;
const AGAIN_MS = 2_000;

type Line = { message: Message } | { skipped: number; key: string };

/**
 * New messages of a queue or topic. The broker limits the rate and counts skipped messages; the page keeps the last
 * ones. While paused, it still receives, and counts new messages.
 */
export class MessageTail extends Island {
  static override properties = { address: {} };

  /** With its kind: /queue/orders. */
  declare address: string;

  #lines: Line[] = [];
  #came = 0;
  #meanwhile: number | undefined;
  #state: "connecting" | "live" | "broken" = "connecting";
  #fault = "";
  #listening: AbortController | undefined;
  #drawing = false;
  #number = 0;

  protected override willUpdate(changes: PropertyValues<this>): void {
    if (changes.has("address")) void this.#listen();
  }

  override disconnectedCallback(): void {
    super.disconnectedCallback();
    this.#listening?.abort();
  }

  /** Read the stream, and reconnect when it breaks, until the element is removed. */
  async #listen(): Promise<void> {
    this.#listening?.abort();
    const listening = new AbortController();
    this.#listening = listening;
    const [, kind = "queue", ...rest] = this.address.split("/");
    const path = address(`${kind}s/tail`, { [kind]: rest.join("/"), credit: CREDIT });
    while (!listening.signal.aborted) {
      try {
        await this.#read(path, listening.signal);
        this.#fault = "";
      } catch (error) {
        if (listening.signal.aborted) return;
        this.#fault = error instanceof RequestRefused ? error.message : "";
      }
      this.#state = "broken";
      this.requestUpdate();
      await new Promise((resolve) => setTimeout(resolve, AGAIN_MS));
    }
  }

  async #read(path: string, signal: AbortSignal): Promise<void> {
    const reply = await fetch(API + path, { signal, headers: { accept: "text/event-stream" } });
    if (!reply.ok || reply.body === null) throw new RequestRefused(parseProblem(await reply.text(), `HTTP ${reply.status}`));
    this.#state = "live";
    this.requestUpdate();
    const reader = reply.body.pipeThrough(new TextDecoderStream()).getReader();
    for (let rest = ""; ; ) {
      const { done, value } = await reader.read();
      if (done) return;
      const blocks = (rest + value).split("\n\n");
      rest = blocks.pop()!;
      for (const block of blocks) this.#take(block);
    }
  }

  #take(block: string): void {
    const event = /^event: (\w+)$/m.exec(block)?.[1];
    const data = /^data: (.*)$/m.exec(block)?.[1];
    if (data === undefined) return;
    if (event === "message") this.#add({ message: parseAnswer(data) as Message }, 1);
    else if (event === "skipped") {
      const { count: skipped } = JSON.parse(data) as { count: number };
      this.#add({ skipped, key: `skipped-${++this.#number}` }, skipped);
    }
  }

  #add(line: Line, messages: number): void {
    this.#came += messages;
    if (this.#meanwhile !== undefined) this.#meanwhile += messages;
    else this.#lines = [line, ...this.#lines].slice(0, KEPT);
    if (this.#drawing) return;
    // Messages that arrive together cause one update.
    this.#drawing = true;
    requestAnimationFrame(() => {
      this.#drawing = false;
      this.requestUpdate();
    });
  }

  #pause(): void {
    if (this.#meanwhile) this.#lines = [{ skipped: this.#meanwhile, key: `skipped-${++this.#number}` } as Line, ...this.#lines].slice(0, KEPT);
    this.#meanwhile = this.#meanwhile === undefined ? 0 : undefined;
    this.requestUpdate();
  }

  #clear(): void {
    this.#lines = [];
    this.requestUpdate();
  }

  protected override render() {
    const paused = this.#meanwhile !== undefined;
    return html`
      <div class="tools">
        <button type="button" aria-pressed=${paused} @click=${() => this.#pause()}>${paused ? gettext("▷ Continue") : gettext("‖ Pause")}</button>
        <button type="button" @click=${() => this.#clear()}>${gettext("Clear")}</button>
        <span class="quiet num" aria-live="off">${this.#summary()}</span>
      </div>
      ${this.#state === "broken" && this.#fault ? html`<p class="notice" data-tone="bad" role="alert">${this.#fault}</p>` : nothing}
      ${
        this.#lines.length === 0
          ? html`<p class="empty">${gettext("Waiting for messages. Tailing does not consume them.")}</p>`
          : html`<ol class="tail" tabindex="0" aria-label=${gettext("Messages as they arrive, newest first")}>
            ${repeat(this.#lines, keyOf, (line) => this.#line(line))}
          </ol>`
      }
    `;
  }

  #summary(): string {
    if (this.#meanwhile !== undefined) return ngettext("Paused. {count} new message.", "Paused. {count} new messages.", this.#meanwhile);
    if (this.#state === "connecting") return gettext("Connecting…");
    if (this.#state === "broken") return gettext("No connection. Retrying.");
    const kept = this.#lines.length === KEPT ? gettext(", the last {kept} are kept", { kept: KEPT }) : "";
    return ngettext("{count} message{kept}", "{count} messages{kept}", this.#came, { kept });
  }

  #line(line: Line): TemplateResult {
    if ("skipped" in line) {
      return html`<li class="skipped">${iconView("triangle-alert")} ${ngettext("{count} skipped", "{count} skipped", line.skipped)}</li>`;
    }
    const { message } = line;
    return html`<li title=${message.id}>
      <time datetime=${message.time} class="quiet">${time(message.time)}</time>
      <span class="quiet">#${count(message.position)} ${message.type ?? ""}</span>
      <span>${preview(bodyOf(message))}</span>
    </li>`;
  }
}

function keyOf(line: Line): string {
  return "skipped" in line ? line.key : `${line.message.id}-${line.message.position}`;
}

customElements.define("mom-message-tail", MessageTail);
