import { html, nothing, type TemplateResult } from "lit";
import type { BrowsedMessage, Rest } from "../live/rest.ts";
import type { Session } from "../live/session.ts";
import { Follow } from "../live/source.ts";
import type { Statistics } from "../live/statistics.ts";
import type { Place, Tab } from "../place.ts";
import { conditionOf } from "../view/condition.ts";
import { count, duration, plural } from "../view/format.ts";
import { isQueue, nameOf } from "../view/name.ts";
import { publishSnippets, receiveSnippets, type Server } from "../view/snippets.ts";
import { copyButton } from "./copy-button.ts";
import { Island } from "./island.ts";
import "./message-browser.ts";
import "./publish-form.ts";
import { snippetBlock } from "./snippet-block.ts";

const TABS: Record<Tab, string> = { messages: "Messages", publish: "Publish", use: "Use it" };

/** One destination beside the list: its messages, a form to publish, and code to use it. */
export class DestinationPanel extends Island {
  declare statistics: Statistics;
  declare session: Session;
  declare rest: Rest;
  declare place: Place;
  declare server: Server;

  #focusedFor = "";
  #template: BrowsedMessage | undefined;

  constructor() {
    super();
    new Follow(this, () => [this.statistics, this.place]);
  }

  protected override render() {
    const { show, tab } = this.place.choice;
    const open = show !== "" || tab !== "";
    document.documentElement.toggleAttribute("data-panel-open", open);
    if (!open) return nothing;
    const tabs = this.#tabs();
    const current = tabs.includes(tab as Tab) ? (tab as Tab) : tabs[0]!;
    return html`<aside class="panel" aria-labelledby="panel-title">
      <header>
        <h2 id="panel-title" tabindex="-1">${show ? nameOf(show) : "Publish a message"}</h2>
        ${show ? copyButton(show, "Copy the name") : nothing}
        <button type="button" class="close" aria-label="Close" title="Close (Esc)" @click=${() => this.close()}>✕</button>
      </header>
      ${show ? this.#facts(show) : nothing}
      ${tabs.length > 1 ? this.#tabBar(tabs, current) : nothing}
      <div class="panel-body">${this.#content(current, show)}</div>
    </aside>`;
  }

  /** Focus follows an opened destination, and goes back to its row when the panel closes. */
  protected override updated(): void {
    const { show, tab } = this.place.choice;
    const opened = show || (tab && "new");
    if (opened === this.#focusedFor) return;
    this.#focusedFor = opened;
    this.#template = opened ? this.#template : undefined;
    if (opened) this.querySelector<HTMLElement>("#panel-title")?.focus({ preventScroll: true });
  }

  close(): void {
    const { show } = this.place.choice;
    if (show === "" && this.place.choice.tab === "") return;
    this.place.go({ show: "", tab: "" });
    this.dispatchEvent(new CustomEvent("panel-closed", { detail: show, bubbles: true }));
  }

  #tabs(): Tab[] {
    const { show } = this.place.choice;
    if (show === "") return ["publish"];
    return isQueue(show) ? ["messages", "publish", "use"] : ["publish", "use"];
  }

  #facts(name: string): TemplateResult {
    const found = this.statistics.destinations.get(name);
    if (found === undefined) {
      if (this.statistics.freshness === "none") return html`<p class="panel-facts"></p>`;
      return html`<p class="panel-facts quiet">Does not exist yet. It is created when the first message is sent.</p>`;
    }
    const { word, tone, shape } = conditionOf(found, this.statistics.isGrowing(name));
    const state = html`<span class="state" data-tone=${tone}><span aria-hidden="true">${shape}</span> ${word}</span>`;
    const consumers = html`<span class="num">${plural(found.consumers, "consumer")}</span>`;
    if (found.kind === "topic") return html`<p class="panel-facts">${state} ${consumers}</p>`;
    return html`<p class="panel-facts">
      ${state}
      <span class="num">${count(found.depth)} ready</span>
      <span class="num">${count(found.unsettled)} unsettled</span>
      ${consumers}
      ${found.depth ? html`<span class="num">oldest ${duration(found.oldest_s)}</span>` : nothing}
    </p>`;
  }

  #tabBar(tabs: Tab[], current: Tab): TemplateResult {
    return html`<nav class="tabs" aria-label="Views of this destination">
      ${tabs.map(
        (tab) => html`<a
          data-place
          href=${this.place.href({ tab })}
          aria-current=${tab === current ? "page" : nothing}
        >${TABS[tab]}</a>`,
      )}
    </nav>`;
  }

  #content(tab: Tab, show: string): TemplateResult {
    switch (tab) {
      case "messages":
        return html`<mom-message-browser
          .rest=${this.rest}
          .statistics=${this.statistics}
          .queue=${show}
          @use-as-template=${(event: CustomEvent<BrowsedMessage>) => this.#useAsTemplate(event.detail)}
        ></mom-message-browser>`;
      case "publish":
        return html`<mom-publish-form
          .session=${this.session}
          .statistics=${this.statistics}
          .place=${this.place}
          .template=${this.#template}
          .destination=${show}
        ></mom-publish-form>`;
      case "use":
        return html`<h3>Publish</h3>
          ${publishSnippets(show, this.server).map(snippetBlock)}
          <h3>Receive</h3>
          ${receiveSnippets(show, this.server).map(snippetBlock)}`;
    }
  }

  #useAsTemplate(message: BrowsedMessage): void {
    this.#template = message;
    this.place.go({ tab: "publish" });
  }
}
