import { html, nothing, type TemplateResult } from "lit";
import { confirmAction } from "../confirm-dialog.ts";
import { pathOf, type Kind } from "../destinations/address.ts";
import type { Right } from "../generated/tables.ts";
import { liveDestination, type Facts, type LiveDestination } from "../live/destination.ts";
import { request, errorText, read } from "../live/requests.ts";
import { RequestRefused } from "../live/rest.ts";
import { Follow } from "../live/source.ts";
import { openBulkDialog, type Op } from "../messages/actions.ts";
import { begin, plan } from "../messages/requests.ts";
import { pageOf } from "../pages.ts";
import { gettext, ngettext } from "../gettext.ts";
import { showToast } from "../toasts.ts";
import { signIn } from "../view/sign.ts";
import { DESTINATION_STATE } from "../generated/signs/destination-state.ts";
import { verdictOfDestination } from "../view/verdict.ts";
import { count, duration, rate } from "../view/format.ts";
import { Island } from "./island.ts";
import "../style/destination.css";
import { JobToast } from "./job-toast.ts";
import { favourites } from "../favourites.ts";
import { iconView } from "../view/icon.ts";
import { showPresentTab } from "../view/tabs.ts";
import { hintOf, refusal } from "../view/refusal.ts";

type Paused = Facts["paused"];

const PAUSES: Record<Kind, Paused[]> = { queue: ["all", "producers", "consumers"], topic: ["producers"] };
const HELD: Record<Paused, string> = {
  none: gettext("none"),
  producers: gettext("producers: their messages are refused"),
  consumers: gettext("consumers: they receive no messages"),
  all: gettext("producers and consumers"),
};
const SHOWN_ORIGINS = 3; // of dead letters

/** The status of a queue or topic, and actions on the whole destination. */
export class DestinationHead extends Island {
  static override properties = { kind: {}, name: {}, dead: { type: Boolean }, list: {} };

  declare kind: Kind;
  declare name: string;
  /** Whether the queue receives dead letters. */
  declare dead: boolean;
  /** The address of the list of destinations. */
  declare list: string;

  #origins: [name: string, share: number][] = [];
  #digested = false;

  constructor() {
    super();
    new Follow(this, () => [this.#one, favourites]);
  }

  protected override firstUpdated(): void {
    showPresentTab();
  }

  get #one(): LiveDestination {
    return liveDestination(this.kind, this.name);
  }

  protected override render() {
    const one = this.#one;
    if (one.isMissing) return this.#missing();
    if (one.facts === undefined) return one.fault === undefined ? this.#loading() : this.#failed(one.fault);
    if (this.dead && !this.#digested && one.facts.depth) void this.#digest();
    return html`<div class="standing" data-old=${one.fault === undefined ? nothing : "true"}>
      <p class="verdict">${this.#pill(one.facts)} <span>${verdictOfDestination(this.kind, { ...one.facts, ...one.now })}</span></p>
      <div class="tools">${this.#actions(one.facts)}</div>
      <p class="standing-facts">${this.kind === "queue" ? this.#ofQueue(one.facts) : this.#ofTopic(one.facts)}</p>
    </div>`;
  }

  // ------------------------------------------------------------------ how it stands

  #pill(facts: Facts): TemplateResult {
    const { tone, icon, word } =
      facts.paused === "none" ? signIn(DESTINATION_STATE, facts.state) : { ...DESTINATION_STATE.paused, word: gettext("paused: {who}", { who: facts.paused }) };
    return html`<span class="pill" data-tone=${tone}>${iconView(icon)} ${word}</span>`;
  }

  #ofQueue(facts: Facts): TemplateResult {
    const { depth = 0, unsettled = 0, delayed = 0, oldest_s = 0 } = facts;
    return html`<span><b class="num">${count(depth)}</b> ${gettext("ready")}</span>
      <span><b class="num">${count(unsettled)}</b> ${gettext("unsettled")}</span>
      <span><b class="num">${count(delayed)}</b> ${gettext("delayed")}</span>
      ${facts.propagation === "local" ? html`<span>${gettext("local, not propagated to other brokers")}</span>` : nothing}
      ${depth ? html`<span>${gettext("oldest")} <b class="num">${duration(oldest_s)}</b></span>` : nothing}
      ${this.#rates()}
      ${
        this.#origins.length
          ? html`<span>${gettext("origin")}:
            ${this.#origins.map(([name, share], index) => html`${index ? ", " : ""}<a href=${pageOf(`/queue/${name}`)}>${name}</a> ${share} %`)}</span>`
          : nothing
      }`;
  }

  #ofTopic(facts: Facts): TemplateResult {
    return html`<span><b class="num">${count(facts.consumers)}</b> ${ngettext("connected subscriber", "connected subscribers", facts.consumers)}</span>
      <span><b class="num">${count(facts.named ?? 0)}</b> ${gettext("durable or shared")}</span>
      <span><b class="num">${count(facts.published)}</b> ${gettext("published since node start")}</span>
      ${this.#rates()}`;
  }

  #rates(): TemplateResult | typeof nothing {
    const { now } = this.#one;
    if (now === undefined) return nothing;
    return html`<span>${gettext("in")} <b class="num">${rate(now.in_rate)}/s</b></span>
      <span>${gettext("out")} <b class="num">${rate(now.out_rate)}/s</b></span>`;
  }

  /** The origins of its dead letters; requested once, since the broker scans the messages for it. */
  async #digest(): Promise<void> {
    this.#digested = true;
    try {
      const path = pathOf("queue", this.name, "digest");
      const { matches, by_origin } = await read<{ matches: number; by_origin: Record<string, number> }>(path);
      const named = Object.entries(by_origin).slice(0, SHOWN_ORIGINS);
      this.#origins = named.map(([name, number]) => [name, Math.round((100 * number) / Math.max(1, matches))]);
      this.requestUpdate();
    } catch {
      // Without it the head is only shorter.
    }
  }

  // ------------------------------------------------------------------ what can be done

  #actions(facts: Facts): TemplateResult {
    const publish = this.#address("publish");
    const paused = facts.paused !== "none";
    return html`${this.#one.may("send") ? html`<a class="button primary" href=${publish}>${gettext("Publish")}</a>` : nothing}
      ${this.#act(paused ? gettext("Resume") : gettext("Pause…"), "administer", () => (paused ? this.#resume(facts) : this.#pause(facts)))}
      ${
        this.kind === "topic"
          ? nothing
          : html`${this.dead ? this.#act(gettext("Retry…"), "manage", () => this.#many("retry")) : nothing}
            <button type="button" class="plain" popovertarget="more-actions" aria-label=${gettext("More actions")} title=${gettext("More actions")}>${iconView("ellipsis")}</button>
            <div id="more-actions" class="menu-items" popover @click=${(event: Event) => (event.currentTarget as HTMLElement).hidePopover()}>
              ${this.#act(gettext("Move…"), "manage", () => this.#many("move"))}
              <hr />
              ${this.#act(gettext("Purge…"), "manage", () => this.#purge(facts), "bad")}
              ${this.#act(gettext("Delete…"), "administer", () => this.#remove(facts), "bad")}
            </div>`
      }
      ${this.#star()}`;
  }

  /** Marks the destination for the tree. */
  #star(): TemplateResult {
    const address = `/${this.kind}/${this.name}`;
    return html`<button type="button" class="plain star" aria-pressed=${favourites.has(address)} aria-label=${gettext("Favourite")} title=${gettext("Favourite")}
      @click=${() => favourites.toggle(address)}>${iconView("star")}</button>`;
  }

  #act(text: string, right: Right, action: () => Promise<unknown>, tone?: string): TemplateResult {
    const may = this.#one.may(right);
    const title = hintOf(may ? undefined : gettext("requires the right {right} on {name}", { right, name: this.name }));
    return html`<button type="button" data-tone=${tone ?? nothing} ?disabled=${!may} title=${title} @click=${() => void action()}>
      ${text}
    </button>`;
  }

  async #pause(facts: Facts): Promise<void> {
    const answer = await confirmAction({
      title: gettext("Pause {name}", { name: this.name }),
      effect: gettext("No messages are lost. The pause also lasts across a restart."),
      button: gettext("Pause"),
      fields: html`<label>${gettext("What to pause")}
        <select name="paused">
          ${PAUSES[this.kind].map((who) => html`<option value=${who}>${HELD[who]}</option>`)}
        </select>
      </label>`,
    });
    if (answer) await this.#setPaused(String(answer.fields.get("paused")) as Paused, facts, answer.reason);
  }

  #resume(facts: Facts): Promise<void> {
    return this.#setPaused("none", facts, "");
  }

  /** Show a toast with Undo. */
  async #setPaused(paused: Paused, facts: Facts, reason: string): Promise<void> {
    const own = facts.settings.paused?.source === "own";
    const before = own ? facts.paused : null;
    const done = await this.#change({ paused: paused === "none" && own ? null : paused }, reason);
    if (!done) return;
    showToast({
      text: paused === "none" ? gettext("{name} was resumed.", { name: this.name }) : gettext("{name} was paused.", { name: this.name }),
      tone: "good",
      undo: () => void this.#change({ paused: before }, gettext("undone")),
    });
  }

  async #change(settings: object, reason: string): Promise<boolean> {
    return this.#try(() => request("PATCH", pathOf(this.kind, this.name), settings, reason, "*"));
  }

  async #many(op: Op): Promise<void> {
    await openBulkDialog(op, this.name, {});
    void this.#one.read();
  }

  async #purge({ depth = 0 }: Facts): Promise<void> {
    let planned = "";
    const answer = await confirmAction({
      title: ngettext("Purge {name}, {count} message", "Purge {name}, {count} messages", depth, { name: this.name }),
      effect: gettext("All ready messages are deleted permanently. Unsettled messages stay with their consumers."),
      button: gettext("Purge"),
      danger: true,
      typed: this.name,
      dryRun: async () => {
        const drawn = await plan({ op: "purge", source: this.name });
        if (drawn.count === 0) throw new Error(gettext("There are no messages to delete."));
        planned = drawn.plan;
        return ngettext("{count} message would be removed now.", "{count} messages would be removed now.", drawn.count);
      },
    });
    if (answer === null) return;
    await this.#try(async () => JobToast.show(await begin(planned, answer.reason)));
  }

  async #remove({ depth = 0, unsettled = 0, delayed = 0 }: Facts): Promise<void> {
    const there = depth + unsettled + delayed;
    const path = pathOf("queue", this.name, "", { force: there > 0 || undefined });
    const match = this.#one.version ?? "*";
    const consumers = this.#one.facts?.consumers ?? 0;
    const answer = await confirmAction({
      title: gettext("Delete {name}", { name: this.name }),
      effect: there
        ? ngettext("Its settings and {count} message are deleted permanently.", "Its settings and {count} messages are deleted permanently.", there)
        : gettext("It is deleted with its settings. It is created again when a client uses it."),
      button: gettext("Delete"),
      danger: true,
      typed: this.name,
      dryRun: async () => {
        if (consumers) throw new Error(ngettext("It has {count} consumer: close it first.", "It has {count} consumers: close them first.", consumers));
        await request("DELETE", `${path}&dry_run=true`, undefined, "", match);
        return gettext("It can be deleted now.");
      },
    });
    if (answer === null) return;
    const gone = await this.#try(() => request("DELETE", path, undefined, answer.reason, match));
    if (gone) showToast({ text: gettext("{name} was deleted.", { name: this.name }), tone: "good", link: { href: this.list, text: gettext("All queues") } });
  }

  /** Run the request and reload; show errors as a toast. */
  async #try(action: () => Promise<unknown>): Promise<boolean> {
    try {
      await action();
      return true;
    } catch (fault) {
      showToast({ text: errorText(fault), tone: "bad" });
      return false;
    } finally {
      await this.#one.read();
    }
  }

  // ------------------------------------------------------------------ other states

  #missing(): TemplateResult {
    const create = async () => {
      const made = await this.#try(() => request("PUT", pathOf(this.kind, this.name), {}));
      if (made) showToast({ text: gettext("{name} was created.", { name: this.name }), tone: "good" });
    };
    return html`<div class="standing">
      <p class="verdict">
        <span class="pill" data-tone="quiet">${iconView("circle-dashed")} ${gettext("does not exist yet")}</span>
        <span>${gettext("It is created by its first message or subscription.")}</span>
      </p>
      <div class="tools">
        ${refusal() === undefined ? html`<a class="button primary" href=${this.#address("publish")}>${gettext("Publish")}</a>` : nothing}
        <button type="button" ?disabled=${refusal() !== undefined} title=${hintOf()} @click=${() => void create()}>${gettext("Create it now")}</button>
      </div>
    </div>`;
  }

  #failed(fault: unknown): TemplateResult {
    const refused = fault instanceof RequestRefused && fault.problem.status === 403;
    return html`<p class="notice" data-tone=${refused ? "quiet" : "bad"} role="status">
      <strong>${refused ? gettext("You do not have permission to view this.") : gettext("It could not be loaded.")}</strong> ${errorText(fault)}
      <button type="button" class="link" @click=${() => void this.#one.read()}>${gettext("Try again")}</button>
    </p>`;
  }

  #loading(): TemplateResult {
    return html`<div class="skeleton standing" role="status">
      <span class="visually-hidden">${gettext("Loading {what}", { what: this.name })}</span>
      <div></div>
    </div>`;
  }

  #address(tab: string): string {
    return pageOf(`/${this.kind}/${this.name}`, tab);
  }
}

customElements.define("mom-destination-head", DestinationHead);
