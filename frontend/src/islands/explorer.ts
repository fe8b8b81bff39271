import { html, nothing, type TemplateResult } from "lit";
import { Follow } from "../live/source.ts";
import type { Destination } from "../live/rest.ts";
import type { Statistics } from "../live/statistics.ts";
import type { Place } from "../place.ts";
import { conditionOf } from "../view/condition.ts";
import { count } from "../view/format.ts";
import { bareName, isQueue } from "../view/name.ts";
import { Island } from "./island.ts";

const FOLD_ABOVE = 12;
const SHOWN_CHILDREN = 100;

/** The way around: a list of links in folding groups. Dotted names fold by their first part when there are many. */
export class Explorer extends Island {
  declare statistics: Statistics;
  declare place: Place;

  constructor() {
    super();
    new Follow(this, () => [this.statistics, this.place]);
  }

  protected override render() {
    const all = [...this.statistics.destinations.values()];
    return html`<nav aria-label="Explorer">
      <ul>
        ${this.#branch("Queues", all.filter(({ kind }) => kind !== "topic"))}
        ${this.#branch("Topics", all.filter(({ kind }) => kind === "topic"))}
      </ul>
    </nav>`;
  }

  #branch(label: string, destinations: Destination[]): TemplateResult {
    const sorted = destinations.toSorted((a, b) => (a.name < b.name ? -1 : 1));
    const folded = sorted.length > FOLD_ABOVE ? groupByPrefix(sorted) : sorted.map((each) => ({ each }));
    return html`<li>
      <details open>
        <summary>${label} ${badge(destinations.length, this.#isTroubled(destinations))}</summary>
        <ul>
          ${folded.slice(0, SHOWN_CHILDREN).map((entry) =>
            "each" in entry ? this.#leaf(entry.each) : this.#group(entry.prefix, entry.members),
          )}
          ${folded.length > SHOWN_CHILDREN
            ? html`<li class="quiet">${count(folded.length - SHOWN_CHILDREN)} more: use the filter</li>`
            : nothing}
        </ul>
      </details>
    </li>`;
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
    const current = this.place.choice.show === name;
    const tab = isQueue(name) ? "messages" : "publish";
    return html`<li>
      <a data-place href=${this.place.href({ show: name, tab })} aria-current=${current ? "true" : nothing}>
        <span title=${name}>${bareName(name)}</span> ${badge(destination.depth, this.#isTroubled([destination]))}
      </a>
    </li>`;
  }

  #isTroubled(destinations: Destination[]): boolean {
    return destinations.some(
      (destination) => conditionOf(destination, this.statistics.isGrowing(destination.name)).tone === "warn",
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
