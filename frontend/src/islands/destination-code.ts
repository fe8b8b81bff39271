import { html, nothing, type TemplateResult } from "lit";
import { confirmAction } from "../confirm-dialog.ts";
import type { Kind } from "../destinations/address.ts";
import type { Right } from "../generated/tables.ts";
import { liveDestination, type LiveDestination } from "../live/destination.ts";
import { request, errorText } from "../live/requests.ts";
import { Follow } from "../live/source.ts";
import { gettext } from "../gettext.ts";
import { pageAddress, server } from "../services.ts";
import { showToast } from "../toasts.ts";
import type { Purpose } from "../view/example.ts";
import { examples } from "../view/snippets.ts";
import { copyButton } from "./copy-button.ts";
import { Island } from "./island.ts";
import { snippetBlock } from "./snippet-block.ts";
import "./try-it.ts";
import { hintOf, refusal } from "../view/refusal.ts";

const TITLES: Record<Purpose, string> = {
  produce: gettext("Produce"),
  consume: gettext("Consume and acknowledge"),
  callback: gettext("Consume with a callback"),
};
const LIVES: [days: string, text: string][] = [
  ["1", gettext("1 day")],
  ["30", gettext("30 days")],
  ["365", gettext("1 year")],
];
const DAY_MS = 86_400_000;
const { basePath = "/" } = document.body.dataset;

/** Example code for a destination, creating a token for it, and trying it in the page. */
export class DestinationCode extends Island {
  static override properties = { kind: {}, name: {} };

  declare kind: Kind;
  declare name: string;

  /** The secret of the new token, kept only while this page is open. */
  #token = "";

  constructor() {
    super();
    new Follow(this, () => [pageAddress, this.#one]);
  }

  get #one(): LiveDestination {
    return liveDestination(this.kind, this.name);
  }

  protected override render() {
    const known = examples(this.#one.address, server, this.#token).filter(({ steps }) => steps.length > 0);
    const chosen = known.find(({ key }) => key === pageAddress.get("tool")) ?? known[0]!;
    return html`<div class="use">
      <div class="use-tools">
        <div class="segments" role="group" aria-label=${gettext("Tool")}>
          ${known.map(
            ({ key, tool }) => html`<button
              type="button" aria-pressed=${key === chosen.key} @click=${() => pageAddress.go({ tool: key }, { replace: true })}
            >${tool}</button>`,
          )}
        </div>
        ${this.#credentials()}
      </div>
      <div>
        ${chosen.steps.map(({ purpose, code }) => snippetBlock({ tool: TITLES[purpose], code }))}
        ${chosen.note ? html`<p class="hint">${chosen.note}</p>` : nothing}
      </div>
      <section>
        <h2>${gettext("Try it")}</h2>
        <mom-try-it kind=${this.kind} name=${this.name}></mom-try-it>
      </section>
    </div>`;
  }

  #credentials(): TemplateResult {
    if (this.#token === "") {
      return html`<p class="token-made">
        <span class="quiet">${gettext("The code reads a token from the environment variable MOM_TOKEN.")}</span>
        <button type="button" ?disabled=${this.#rights.length === 0} title=${hintOf()} @click=${() => void this.#make()}>${gettext("Create a token…")}</button>
      </p>`;
    }
    return html`<p class="notice token-made" data-tone="warn" role="status">
      <span><strong>${gettext("This token is shown only once.")}</strong> ${gettext("It is filled in below.")}</span>
      <code class="secret">${this.#token}</code> ${copyButton(this.#token, gettext("Copy the token"))}
      <a href=${`${basePath}console/tokens/`}>${gettext("Tokens")}</a>
    </p>`;
  }

  /** The rights that a new token can have; none before they are loaded. */
  get #rights(): Right[] {
    if (refusal() !== undefined) return [];
    return (["send", "receive"] as const).filter((right) => this.#one.may(right) || this.#one.isMissing);
  }

  async #make(): Promise<void> {
    const rights = this.#rights;
    const answer = await confirmAction({
      title: gettext("Create a token for {name}", { name: this.name }),
      effect: gettext("The token grants only the rights selected here. It can be revoked at any time."),
      button: gettext("Create token"),
      fields: html`<label>${gettext("Name that shows what the token is for")}
          <input name="name" required maxlength="100" autocomplete="off" .value=${`${this.name} ${stamp()}`.slice(0, 100)} />
        </label>
        <fieldset class="choices">
          <legend>${gettext("Rights")}</legend>
          ${rights.map((right) => html`<label class="check"><input type="checkbox" name="right" value=${right} checked /> ${right}</label>`)}
        </fieldset>
        <label>${gettext("Valid for")}
          <select name="days">
            ${LIVES.map(([days, text]) => html`<option value=${days} ?selected=${days === "30"}>${text}</option>`)}
          </select>
        </label>`,
    });
    if (answer === null) return;
    const chosen = answer.fields.getAll("right").map(String);
    const expires = new Date(Date.now() + Number(answer.fields.get("days")) * DAY_MS).toISOString();
    const body = { name: answer.fields.get("name"), expires, grants: [{ rights: chosen, destinations: [this.#one.address] }] };
    try {
      const { token } = await request<{ token: string }>("POST", "tokens", body, answer.reason);
      this.#token = token;
      this.requestUpdate();
    } catch (fault) {
      showToast({ text: errorText(fault), tone: "bad" });
    }
  }
}

/** A time stamp that makes names of tokens unique. */
function stamp(): string {
  return new Date().toISOString().slice(0, 16).replace("T", " ");
}

customElements.define("mom-destination-code", DestinationCode);
