import { html, nothing, type TemplateResult } from "lit";
import { pathOf, type Kind } from "../destinations/address.ts";
import { liveDestination, type LiveDestination } from "../live/destination.ts";
import { request, errorText } from "../live/requests.ts";
import { Follow } from "../live/source.ts";
import { language } from "../language.ts";
import { gettext } from "../gettext.ts";
import { session } from "../services.ts";
import { Island } from "./island.ts";
import { iconView } from "../view/icon.ts";
import { refusal } from "../view/refusal.ts";

interface Received {
  id: string;
  body?: unknown;
  body_base64?: string;
}

/** Lines that the right pane keeps. */
const KEPT = 50;
const WAIT_S = 10;

/** Two panes: send and receive, with the same requests as programs. */
export class TryIt extends Island {
  static override properties = { kind: {}, name: {} };

  declare kind: Kind;
  declare name: string;

  #result: TemplateResult | undefined;
  #arrived: { at: string; text: string }[] = [];
  #waiting = false;
  #fault = "";
  /** Ends listening to a topic. */
  #stop: (() => void) | undefined;

  constructor() {
    super();
    new Follow(this, () => [this.#one]);
  }

  get #one(): LiveDestination {
    return liveDestination(this.kind, this.name);
  }

  override disconnectedCallback(): void {
    super.disconnectedCallback();
    this.#stop?.();
    this.#stop = undefined;
  }

  protected override render() {
    return html`<div class="panes">
      ${this.#one.isSystem ? nothing : this.#sendPane()} ${this.#receivePane()}
    </div>`;
  }

  #sendPane(): TemplateResult {
    return html`<form class="pane" @submit=${(event: SubmitEvent) => void this.#send(event)} aria-label=${gettext("Send")}>
        <label>${gettext("Message")}<textarea name="body" rows="3" spellcheck="false" translate="no">Hello</textarea></label>
        <div class="tools">
          <button type="submit" class="primary" ?disabled=${!this.#mayOrNew("send")}>${gettext("Send")}</button>
          <span role="status">${this.#result ?? nothing}</span>
        </div>
      </form>`;
  }

  #receivePane(): TemplateResult {
    return html`<div class="pane" role="group" aria-label=${gettext("Receive")}>
        <div class="tools">${this.kind === "queue" ? this.#takeButton() : this.#listenButton()}</div>
        ${this.#fault ? html`<p class="notice" data-tone="bad" role="alert">${this.#fault}</p>` : nothing}
        ${
          this.#arrived.length === 0
            ? html`<p class="quiet">${this.kind === "queue" ? gettext("Messages received here are acknowledged immediately and removed from the queue.") : gettext("Messages published from now on are shown.")}</p>`
            : html`<ol class="arrived" aria-live="polite">
              ${this.#arrived.map(({ at, text }) => html`<li><span class="quiet num">${at}</span> ${text}</li>`)}
            </ol>`
        }
      </div>`;
  }

  /** A destination that does not exist is created by its first use, if that is allowed. */
  #mayOrNew(right: "send" | "receive"): boolean {
    return refusal() === undefined && ((this.#one.isMissing && !this.#one.isSystem) || this.#one.may(right));
  }

  #takeButton(): TemplateResult {
    return html`<button type="button" ?disabled=${this.#waiting || !this.#mayOrNew("receive")} @click=${() => void this.#take()}>
        ${gettext("Receive a message")}
      </button>
      ${this.#waiting ? html`<span class="quiet">${gettext("waiting for up to {seconds} s…", { seconds: WAIT_S })}</span>` : nothing}`;
  }

  #listenButton(): TemplateResult {
    return html`<button type="button" aria-pressed=${this.#stop !== undefined} ?disabled=${!this.#mayOrNew("receive")} @click=${() => this.#listen()}>
      ${this.#stop ? gettext("Unsubscribe") : gettext("Subscribe")}
    </button>`;
  }

  async #send(event: SubmitEvent): Promise<void> {
    event.preventDefault();
    const body = String(new FormData(event.target as HTMLFormElement).get("body") ?? "");
    const headers = { "content-type": "text/plain" };
    const outcome = await session.publish({ destination: this.#one.address, body, headers });
    switch (outcome.kind) {
      case "confirmed":
        this.#result = html`<span class="state" data-tone="good">${iconView("circle-check")} ${gettext("Confirmed after {ms} ms", { ms: outcome.tookMs.toFixed(0) })}</span>`;
        break;
      case "refused":
        this.#result = html`<span class="state" data-tone="bad">${iconView("circle-x")} ${outcome.problem.detail || outcome.problem.title}</span>`;
        break;
      case "unconfirmed":
        this.#result = html`<span class="state" data-tone="warn">${iconView("triangle-alert")} ${outcome.why}</span>`;
    }
    this.requestUpdate();
  }

  async #take(): Promise<void> {
    this.#waiting = true;
    this.#fault = "";
    this.requestUpdate();
    try {
      const body = { max: 1, wait_s: WAIT_S, ack: "auto" };
      const { items } = await request<{ items: Received[] }>("POST", pathOf("queue", this.name, "receive"), body);
      if (items.length === 0) this.#show(gettext("no message received"));
      for (const item of items) this.#show(textOf(item));
    } catch (fault) {
      this.#fault = errorText(fault);
    }
    this.#waiting = false;
    this.requestUpdate();
  }

  #listen(): void {
    if (this.#stop) this.#stop = void this.#stop();
    else this.#stop = session.subscribe(this.#one.address, (body) => this.#show(body));
    this.requestUpdate();
  }

  #show(text: string): void {
    const at = new Date().toLocaleTimeString(language, { hourCycle: "h23" });
    this.#arrived = [{ at, text }, ...this.#arrived].slice(0, KEPT);
    this.requestUpdate();
  }
}

function textOf({ body, body_base64 }: Received): string {
  if (body_base64 !== undefined) return gettext("{count} bytes", { count: atob(body_base64).length });
  return typeof body === "string" ? body : JSON.stringify(body);
}

customElements.define("mom-try-it", TryIt);
