import { html, nothing, type TemplateResult } from "lit";
import type { Kind } from "../destinations/address.ts";
import { onStatsChanged, type ChangedStats } from "../destinations/stats.ts";
import { change, hasNewcomers, labelOf, type Fold, type Item, type Leaf } from "../destinations/tree.ts";
import { MAX_PAGE, NEEDS_ATTENTION, type DestinationState } from "../generated/tables.ts";
import { read } from "../live/requests.ts";
import { explorerFilter } from "../live/explorer-filter.ts";
import { markCurrent } from "../navigation.ts";
import { pageOf } from "../pages.ts";
import { gettext } from "../gettext.ts";
import { session } from "../services.ts";
import { count } from "../view/format.ts";
import { Island } from "./island.ts";
import { iconView } from "../view/icon.ts";

const AT_ONCE = 100;
/**
 * The interval of reloading what is not pushed: new names, and sums of collapsed branches, for which the broker visits
 * every destination.
 */
const REREAD_MS = 10_000;
const SUMS_MS = 30_000;
const RETRY_MS = 5_000;

interface Answer {
  items: Item[];
  next: string | null;
  count: number;
}
/** Results of a filter, regardless of levels. */
interface Found {
  items: Leaf[];
  next: string | null;
  approx_total: number;
}
/** An expanded level of the tree; without an answer it is loading. */
interface Level {
  answer?: Answer;
  fault?: string;
}

/** The destinations of a kind in the explorer. Each level is loaded when it is first expanded. */
export class Branch extends Island {
  static override properties = { kind: {} };
  declare kind: Kind;

  #levels = new Map<string, Level>();
  #open = new Set<string>();
  #filter = "";
  /** The destination that was last scrolled into view. */
  #revealed: string | undefined;
  readonly #pageShown = () => this.requestUpdate();
  #leave: (() => void)[] = [];
  #readAt = performance.now();
  #timer: ReturnType<typeof setTimeout> | undefined;

  override connectedCallback(): void {
    super.connectedCallback();
    this.#open = new Set(JSON.parse(sessionStorage.getItem(this.#key) ?? (this.kind === "queue" ? '[""]' : "[]")) as string[]);
    this.#leave = [
      onStatsChanged((changes) => this.#moved(changes)),
      session.watch(() => session.status.kind === "live" && this.#soon(0)),
      explorerFilter.watch(() => this.#seek(explorerFilter.text)),
    ];
    document.addEventListener("mom:arrived", this.#pageShown);
    void this.#read("");
    for (const prefix of this.#open) if (prefix) void this.#read(prefix);
  }

  override disconnectedCallback(): void {
    super.disconnectedCallback();
    for (const leave of this.#leave) leave();
    document.removeEventListener("mom:arrived", this.#pageShown);
    clearTimeout(this.#timer);
  }

  override updated(): void {
    markCurrent();
    this.#reveal();
  }

  /** Opens the path to the destination that is shown, level by level as they arrive, and scrolls it into view once. */
  #reveal(): void {
    const name = shownDestination(this.kind);
    if (this.#filter || name === this.#revealed) return;
    if (name === undefined) {
      this.#revealed = undefined;
      return;
    }
    const path = ["", ...[...this.#levels.values()].flatMap(({ answer }) => foldsOf(answer?.items ?? [])).filter((prefix) => name.startsWith(prefix))];
    const closed = path.find((prefix) => !this.#open.has(prefix));
    if (closed !== undefined) {
      this.#open.add(closed);
      if (!this.#levels.has(closed)) void this.#read(closed);
      this.requestUpdate();
      return;
    }
    const leaf = this.querySelector('a[aria-current="page"]');
    if (leaf === null) return;
    this.#revealed = name;
    leaf.scrollIntoView({ block: "nearest" });
  }

  protected override render() {
    const root = this.#levels.get("");
    const label = this.kind === "topic" ? gettext("Topics") : gettext("Queues");
    const troubled = root?.answer?.items.some(isTroubled) ?? false;
    return html`${root?.answer ? badge(root.answer.count, troubled) : nothing}
      <details .open=${this.#filter !== "" || this.#open.has("")} @toggle=${(event: Event) => this.#toggled(event, "")}>
        <summary aria-label=${label}></summary>
        ${this.#level("")}
      </details>`;
  }

  #level(prefix: string): TemplateResult {
    const { answer, fault } = this.#levels.get(prefix) ?? {};
    if (!answer) return html`<p class="quiet line">${fault ?? gettext("Loading…")}</p>`;
    if (answer.items.length === 0) return html`<p class="quiet line">${this.#filter ? gettext("No matches") : gettext("None yet")}</p>`;
    return html`<ul>
      ${answer.items.map((item) => ("prefix" in item ? this.#fold(item, prefix) : this.#leaf(item, prefix)))}
      ${
        answer.next === null
          ? nothing
          : html`<li><button type="button" class="link line" @click=${() => this.#read(prefix, answer)}>${gettext("Show 100 more")}</button></li>`
      }
    </ul>`;
  }

  #leaf(leaf: Leaf, above: string): TemplateResult {
    return html`<li>
      <a href=${pageOf(`/${this.kind}/${leaf.name}`)} title=${leaf.name}><span>${labelOf(leaf.name, above)}</span>${badge(leaf.depth, isTroubled(leaf))}</a>
    </li>`;
  }

  #fold(fold: Fold, above: string): TemplateResult {
    return html`<li>
      <details .open=${this.#open.has(fold.prefix)} @toggle=${(event: Event) => this.#toggled(event, fold.prefix)}>
        <summary title=${gettext("{count} below {prefix}", { count: count(fold.count), prefix: fold.prefix })}>
          <span>${fold.prefix.slice(above.length)}</span>${badge(fold.depth, isTroubled(fold))}
        </summary>
        ${this.#open.has(fold.prefix) ? this.#level(fold.prefix) : nothing}
      </details>
    </li>`;
  }

  #toggled(event: Event, prefix: string): void {
    const { open } = event.target as HTMLDetailsElement;
    event.stopPropagation();
    if (this.#filter || open === this.#open.has(prefix)) return;
    if (open) this.#open.add(prefix);
    else this.#open.delete(prefix);
    sessionStorage.setItem(this.#key, JSON.stringify([...this.#open]));
    if (open && !this.#levels.has(prefix)) void this.#read(prefix);
    this.requestUpdate();
  }

  get #key(): string {
    return `mom.tree.${this.kind}`;
  }

  #seek(filter: string): void {
    this.#filter = filter;
    this.#levels.clear();
    void this.#read("");
    if (!filter) for (const prefix of this.#open) if (prefix) void this.#read(prefix);
  }

  /** Reads a level: its first hundred, what comes `behind` those that are here, or as many again as are shown. */
  async #read(prefix: string, behind?: Answer): Promise<void> {
    const level = this.#levels.get(prefix) ?? {};
    this.#levels.set(prefix, level);
    const filter = this.#filter;
    const shown = level.answer?.items.length ?? 0;
    const limit = behind ? AT_ONCE : Math.min(Math.max(shown, AT_ONCE), MAX_PAGE);
    try {
      const answer = await this.#ask(prefix, filter, limit, behind?.next);
      if (filter !== this.#filter) return;
      level.answer = behind ? { ...answer, items: [...behind.items, ...answer.items] } : answer;
      level.fault = undefined;
    } catch (fault) {
      level.fault = fault instanceof Error ? fault.message : String(fault);
      this.#soon(RETRY_MS);
    }
    this.requestUpdate();
  }

  #ask(prefix: string, filter: string, limit: number, after?: string | null): Promise<Answer> {
    if (!filter) return read<Answer>("destinations/tree", { kind: this.kind, prefix, limit, after });
    return read<Found>(`${this.kind}s`, { q: filter, fields: "name,depth,state", limit, after }).then(({ items, next, approx_total }) => ({
      items,
      next,
      count: approx_total,
    }));
  }

  /** Figures of leaves that are shown change at once; sums and newcomers when the level is read again. */
  #moved(changes: ChangedStats): void {
    const start = `/${this.kind}/`;
    const ours = new Map([...changes].filter(([name]) => name.startsWith(start)).map(([name, figures]) => [name.slice(start.length), figures]));
    if (ours.size === 0) return;
    const items = [...this.#levels.values()].flatMap(({ answer }) => answer?.items ?? []);
    const others = change(items, ours);
    if (others.length < ours.size) this.requestUpdate();
    if (others.length === 0) return;
    const areSumsOld = performance.now() - this.#readAt > SUMS_MS - REREAD_MS;
    if (areSumsOld || hasNewcomers(others, items, (prefix) => this.#open.has(prefix))) this.#soon(REREAD_MS);
  }

  #soon(ms: number): void {
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined;
      if (document.hidden) return this.#soon(REREAD_MS);
      this.#readAt = performance.now();
      for (const prefix of this.#levels.keys()) if (!prefix || this.#open.has(prefix)) void this.#read(prefix);
    }, ms);
  }
}

/** The name of the destination whose page is shown, if it is of this kind. */
function shownDestination(kind: Kind): string | undefined {
  if (!location.pathname.endsWith(`/${kind}s/one`)) return undefined;
  return new URLSearchParams(location.search).get("name") ?? undefined;
}

function foldsOf(items: Item[]): string[] {
  return items.flatMap((item) => ("prefix" in item ? [item.prefix] : []));
}

function isTroubled({ state }: { state: DestinationState }): boolean {
  return (NEEDS_ATTENTION as readonly string[]).includes(state);
}

/** A count, and the mark of trouble here or below: icon and colour, and words for a screen reader. */
function badge(value: number, troubled: boolean): TemplateResult {
  return html`<span class="badge num">${count(value)}${
    troubled ? html`<span class="trouble" role="img" aria-label=${gettext("needs attention")}>${iconView("triangle-alert")}</span>` : nothing
  }</span>`;
}

customElements.define("mom-branch", Branch);
