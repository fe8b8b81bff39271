import { html, nothing, type TemplateResult } from "lit";
import { favourites } from "../favourites.ts";
import { gettext } from "../gettext.ts";
import { Follow } from "../live/source.ts";
import { markCurrent } from "../navigation.ts";
import { pageOf } from "../pages.ts";
import { recent } from "../recent.ts";
import { iconView } from "../view/icon.ts";
import { bareName, isQueue } from "../view/name.ts";
import { Island } from "./island.ts";

const MOST_RECENT = 4;

/** What the tree begins with: destinations that the user has marked, and those that were shown last. */
export class MarkedDestinations extends Island {
  readonly #shown = () => this.requestUpdate();

  constructor() {
    super();
    new Follow(this, () => [favourites]);
  }

  override connectedCallback(): void {
    super.connectedCallback();
    document.addEventListener("mom:arrived", this.#shown);
  }

  override disconnectedCallback(): void {
    super.disconnectedCallback();
    document.removeEventListener("mom:arrived", this.#shown);
  }

  protected override updated(): void {
    markCurrent();
  }

  protected override render() {
    const marked = favourites.addresses;
    const here = destinationAt(new URL(location.href));
    const visited = recentDestinations().filter((address) => !marked.includes(address) && address !== here);
    if (marked.length + visited.length === 0) return nothing;
    return html`<ul>
      ${this.#part(gettext("Favourites"), "star", marked)} ${this.#part(gettext("Recent"), "history", visited.slice(0, MOST_RECENT))}
    </ul>`;
  }

  #part(title: string, icon: string, addresses: string[]): TemplateResult | typeof nothing {
    if (addresses.length === 0) return nothing;
    return html`<li><span class="kind">${title}</span><ul>
      ${addresses.map((address) => html`<li><a href=${pageOf(address)} title=${bareName(address)}><span>${iconView(isQueue(address) ? icon : "radio")} ${bareName(address)}</span></a></li>`)}
    </ul></li>`;
  }
}

/** Addresses of queues and topics among the recent pages, the newest first. */
function recentDestinations(): string[] {
  const found = recent().map(({ href }) => destinationAt(new URL(href, location.href)));
  return [...new Set(found.filter((address) => address !== undefined))];
}

/** The queue or topic whose page has an address. */
function destinationAt({ pathname, searchParams }: URL): string | undefined {
  const [, kind] = /\/(queue|topic)s\/one$/.exec(pathname) ?? [];
  const name = searchParams.get("name");
  return kind && name ? `/${kind}/${name}` : undefined;
}

customElements.define("mom-marked-destinations", MarkedDestinations);
