import { html, nothing, type TemplateResult } from "lit";
import { Follow } from "../live/source.ts";
import type { Destination } from "../live/rest.ts";
import { conditionOf } from "../view/condition.ts";
import { count } from "../view/format.ts";
import { pageOf } from "../pages.ts";
import { bareName } from "../view/name.ts";
import { Island } from "./island.ts";
import { markCurrent } from "../navigation.ts";
import { say } from "../say.ts";
import { statistics } from "../services.ts";

const FOLD_ABOVE = 12;
const SHOWN_CHILDREN = 100;

/** The destinations of a kind, below the explorer's line. Dotted names fold by their first part when there are many. */
export class Branch extends Island {
  static override properties = { kind: {} };
  declare kind: string;

  constructor() {
    super();
    new Follow(this, () => [statistics]);
  }

  override updated(): void {
    markCurrent();
  }

  protected override render() {
    const all = [...statistics.destinations.values()];
    const destinations = all.filter(({ kind }) => (kind === "topic") === (this.kind === "topic"));
    const sorted = destinations.toSorted((a, b) => (a.name < b.name ? -1 : 1));
    const folded = sorted.length > FOLD_ABOVE ? groupByPrefix(sorted) : sorted.map((each) => ({ each }));
    return html`${badge(destinations.length, this.#isTroubled(destinations))}
      <details open>
        <summary aria-label=${this.kind === "topic" ? say("Topics") : say("Queues")}></summary>
        <ul>
          ${folded.slice(0, SHOWN_CHILDREN).map((entry) =>
            "each" in entry ? this.#leaf(entry.each) : this.#group(entry.prefix, entry.members),
          )}
          ${folded.length > SHOWN_CHILDREN
            ? html`<li class="quiet">${count(folded.length - SHOWN_CHILDREN)} more: use the filter</li>`
            : nothing}
        </ul>
      </details>`;
  }

  #group(prefix: string, members: Destination[]): TemplateResult {
    return html`<li>
      <details>
        <summary>${prefix} ${badge(members.length, this.#isTroubled(members))}</summary>
        <ul>
          ${members.slice(0, SHOWN_CHILDREN).map((member) => this.#leaf(member))}
        </ul>
      </details>
    </li>`;
  }

  #leaf(destination: Destination): TemplateResult {
    const { name } = destination;
    return html`<li>
      <a href=${pageOf(name)}>
        <span title=${name}>${bareName(name)}</span> ${badge(destination.depth, this.#isTroubled([destination]))}
      </a>
    </li>`;
  }

  #isTroubled(destinations: Destination[]): boolean {
    return destinations.some(
      (destination) => conditionOf(destination, statistics.isGrowing(destination.name)).tone === "warn",
    );
  }
}

type Entry = { each: Destination } | { prefix: string; members: Destination[] };

/** Names that share the part before their first dot become one entry; a lonely one stays itself. */
function groupByPrefix(destinations: Destination[]): Entry[] {
  const groups = new Map<string, Destination[]>();
  for (const destination of destinations) {
    const prefix = /^[^.]+\./.exec(bareName(destination.name))?.[0] ?? destination.name;
    groups.set(prefix, [...(groups.get(prefix) ?? []), destination]);
  }
  return [...groups].map(([prefix, members]) => (members.length === 1 ? { each: members[0]! } : { prefix, members }));
}

/** A count, and the mark of trouble below: shape and colour, and words for a screen reader. */
function badge(value: number, troubled: boolean): TemplateResult {
  return html`<span class="badge num">${count(value)}${troubled
    ? html`<span class="trouble" role="img" aria-label="needs attention">▲</span>`
    : nothing}</span>`;
}

customElements.define("mom-branch", Branch);
