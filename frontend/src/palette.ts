/** Ctrl K: open any page, destination or bridge, or run a command. */

import { html, nothing, render, type TemplateResult } from "lit";
import { confirmAction } from "./confirm-dialog.ts";
import "./style/palette.css";
import { request, errorText, read } from "./live/requests.ts";
import { MAX_PAGE } from "./generated/tables.ts";
import { pathOf } from "./destinations/address.ts";
import { visit } from "./navigation.ts";
import { pageOf } from "./pages.ts";
import { KINDS, hasWords, queryOf, type Kind } from "./palette-query.ts";
import { recent } from "./recent.ts";
import { gettext } from "./gettext.ts";
import { toggleTheme } from "./theme.ts";
import { showToast } from "./toasts.ts";

const { basePath = "/" } = document.body.dataset;
const PAUSE_MS = 120;
const FOUND = 8;

/** Where the address of a page gets a name. */
const viewOf = (address: string) => `${basePath}console/settings/views/save?${new URLSearchParams({ address })}`;

interface Entry {
  group: string;
  label: string;
  hint?: string;
  action: () => void;
}
interface Named {
  name: string;
}

/** Opens the palette, or closes it when it is open. */
export function openPalette(): void {
  const open = document.querySelector<HTMLDialogElement>("dialog.palette");
  if (open) open.close();
  else new Palette().show();
}

class Palette {
  readonly #dialog = document.createElement("dialog");
  readonly #origin = document.activeElement as HTMLElement | null;
  #text = "";
  #entries: Entry[] = [];
  #at = 0;
  #asked = 0;
  #busy = false;
  #timer: ReturnType<typeof setTimeout> | undefined;

  show(): void {
    this.#dialog.className = "palette";
    this.#dialog.setAttribute("aria-label", gettext("Search or jump"));
    this.#dialog.setAttribute("closedby", "any");
    document.body.append(this.#dialog);
    this.#dialog.addEventListener("close", () => {
      clearTimeout(this.#timer);
      this.#asked += 1;
      this.#dialog.remove();
      this.#origin?.focus();
    });
    this.#type("");
    this.#dialog.showModal();
  }

  #type(text: string): void {
    this.#text = text;
    this.#at = 0;
    this.#entries = this.#here();
    this.#draw();
    clearTimeout(this.#timer);
    if (text.trim()) this.#timer = setTimeout(() => void this.#seek(), PAUSE_MS);
  }

  /** Entries that need no request: recent pages, all pages, general commands. */
  #here(): Entry[] {
    const query = this.#text.trim();
    const pages = [...document.querySelectorAll<HTMLAnchorElement>("#pages a, #account a")].map((link) => ({
      group: gettext("Pages"),
      label: link.querySelector("span")?.textContent ?? link.textContent.trim(),
      hint: link.dataset.key && `g ${link.dataset.key}`,
      action: () => this.#go(link.href),
    }));
    const actions = [
      { group: gettext("Actions"), label: gettext("Theme: light or dark"), hint: "t", action: toggleTheme },
      { group: gettext("Actions"), label: gettext("Save this view…"), action: () => this.#go(viewOf(location.pathname + location.search)) },
      {
        group: gettext("Actions"),
        label: gettext("Keyboard shortcuts"),
        hint: "?",
        action: () => document.querySelector<HTMLElement>("[data-action=keys]")!.click(),
      },
    ];
    if (!query) return [...recent().map(({ label, href }) => ({ group: gettext("Recent"), label, action: () => this.#go(href) })), ...pages, ...actions];
    return [...pages, ...actions].filter(({ label }) => hasWords(label, query));
  }

  /** Results of the broker: commands for texts such as `pause dc`, else pages. */
  async #seek(): Promise<void> {
    const number = ++this.#asked;
    const { verb, kind, name: query } = queryOf(this.#text, VERBS);
    this.#busy = true;
    this.#draw();
    const [queues, topics, bridges] = await Promise.all([named("queues", query), named("topics", query), bridgesNamed(query)]);
    if (number !== this.#asked) return;
    this.#busy = false;
    const found = [
      ...queues.map(({ name }) => ["queue", name] as const),
      ...topics.map(({ name }) => ["topic", name] as const),
      ...bridges.map(({ name }) => ["bridge", name] as const),
    ];
    const actions = verb
      ? found
          .filter(([one]) => verb.of.includes(one) && (kind ?? one) === one)
          .map(([kind, name]) => ({
            group: gettext("Actions"),
            label: `${verb.word} ${name}`,
            hint: KINDS[kind],
            action: () => void verb.action(kind, name),
          }))
      : [];
    const places = found.map(([kind, name]) => ({ group: TITLES[kind], label: name, hint: KINDS[kind], action: () => this.#go(placeOf(kind, name)) }));
    this.#entries = [...actions, ...this.#here(), ...(verb ? [] : places)];
    this.#at = 0;
    this.#draw();
  }

  #go(href: string): void {
    const { pathname, search } = new URL(href, location.href);
    visit(pathname + search);
  }

  #choose(entry: Entry | undefined): void {
    if (!entry) return;
    this.#dialog.close();
    entry.action();
  }

  #key(event: KeyboardEvent): void {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) this.#at = (this.#at + step + this.#entries.length) % Math.max(1, this.#entries.length);
    else if (event.key === "Enter") this.#choose(this.#entries[this.#at]);
    else return;
    event.preventDefault();
    this.#draw();
    this.#dialog.querySelector("[aria-selected=true]")?.scrollIntoView({ block: "nearest" });
  }

  #draw(): void {
    render(
      html`<input
          type="text" role="combobox" aria-expanded="true" aria-controls="palette-list" aria-autocomplete="list" autofocus autocomplete="off" spellcheck="false"
          aria-label=${gettext("Search or jump")} placeholder=${gettext("a page, a queue, a bridge; or: pause dc-west")}
          aria-activedescendant=${this.#entries.length ? `palette-${this.#at}` : nothing}
          @input=${(event: InputEvent) => this.#type((event.target as HTMLInputElement).value)}
          @keydown=${(event: KeyboardEvent) => this.#key(event)}
        />
        <ul id="palette-list" role="listbox" aria-label=${gettext("Results")}>
          ${this.#entries.map((entry, index) => this.#line(entry, index))}
        </ul>
        <p class="quiet" role="status">${this.#entries.length ? nothing : this.#busy ? gettext("Searching…") : gettext("No results.")}</p>`,
      this.#dialog,
    );
  }

  #line({ group, label, hint }: Entry, index: number): TemplateResult {
    const begins = this.#entries[index - 1]?.group !== group;
    return html`<li role="option" id=${`palette-${index}`} aria-selected=${index === this.#at} data-group=${begins ? group : nothing}
      @click=${() => this.#choose(this.#entries[index])}>
      <span class="name">${label}</span>${hint ? html`<span class="quiet">${hint}</span>` : nothing}
    </li>`;
  }
}

const TITLES: Record<Kind, string> = { queue: gettext("Queues"), topic: gettext("Topics"), bridge: gettext("Bridges") };

interface Verb {
  word: string;
  of: Kind[];
  action: (kind: Kind, name: string) => Promise<void> | void;
}
const VERBS: Verb[] = [
  { word: gettext("Pause"), of: ["queue", "bridge"], action: (kind, name) => hold(kind, name, true) },
  { word: gettext("Resume"), of: ["queue", "bridge"], action: (kind, name) => hold(kind, name, false) },
  { word: gettext("Publish"), of: ["queue", "topic"], action: (kind, name) => visit(pageOf(`/${kind}/${name}`, "publish")) },
];

/** Pause or resume, with a toast that offers Undo. */
async function hold(kind: Kind, name: string, paused: boolean): Promise<void> {
  const answer = await confirmAction({
    title: paused ? gettext("Pause {name}", { name }) : gettext("Resume {name}", { name }),
    effect:
      kind === "bridge"
        ? gettext("Messages wait here while the bridge is paused, and are forwarded when it is resumed.")
        : gettext("While the queue is paused, producers are refused and consumers receive nothing. No messages are lost."),
    button: paused ? gettext("Pause") : gettext("Resume"),
  });
  if (!answer) return;
  try {
    await setHeld(kind, name, paused, answer.reason);
    const undo = () => void setHeld(kind, name, !paused, gettext("undone")).catch(showFault);
    showToast({ text: paused ? gettext("{name} was paused.", { name }) : gettext("{name} was resumed.", { name }), tone: "good", undo });
  } catch (fault) {
    showFault(fault);
  }
}

function setHeld(kind: Kind, name: string, paused: boolean, reason: string): Promise<unknown> {
  const change = kind === "bridge" ? { desired: paused ? "paused" : "running" } : { paused: paused ? "all" : null };
  const path = kind === "bridge" ? `bridges/${encodeURIComponent(name)}` : pathOf(kind, name);
  return request("PATCH", path, change, reason, "*");
}

function showFault(fault: unknown): void {
  showToast({ text: errorText(fault), tone: "bad" });
}

function placeOf(kind: Kind, name: string): string {
  return kind === "bridge" ? `${basePath}console/bridges/one?${new URLSearchParams({ name })}` : pageOf(`/${kind}/${name}`);
}

async function named(list: string, sought: string): Promise<Named[]> {
  try {
    return (await read<{ items: Named[] }>(list, { q: sought, limit: FOUND, fields: "name" })).items;
  } catch {
    return [];
  }
}

/** Bridges are few, and some users may not list them. */
async function bridgesNamed(query: string): Promise<Named[]> {
  try {
    const { items } = await read<{ items: Named[] }>("bridges", { limit: MAX_PAGE });
    return items.filter(({ name }) => name.toLowerCase().includes(query.toLowerCase())).slice(0, FOUND);
  } catch {
    return [];
  }
}
