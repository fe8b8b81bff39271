/** Ctrl K: open any page, destination, client, resource, setting or message, or run a command. */

import { html, nothing, render, type TemplateResult } from "lit";
import { confirmAction } from "./confirm-dialog.ts";
import "./style/palette.css";
import { request, errorText } from "./live/requests.ts";
import { pathOf } from "./destinations/address.ts";
import { visit } from "./navigation.ts";
import { pageOf } from "./pages.ts";
import { KINDS, hasWords, parted, queryOf, type Kind } from "./palette-query.ts";
import { forgetLists, search, type Found } from "./palette-search.ts";
import { recent } from "./recent.ts";
import { gettext } from "./gettext.ts";
import { toggleTheme } from "./theme.ts";
import { showToast } from "./toasts.ts";
import { iconView } from "./view/icon.ts";
import { refusal } from "./view/refusal.ts";

const { basePath = "/" } = document.body.dataset;
const PAUSE_MS = 120;

/** Where the address of a page gets a name. */
const viewOf = (address: string) => `${basePath}console/settings/views/save?${new URLSearchParams({ address })}`;

interface Entry {
  group: string;
  icon: string;
  label: string;
  hint?: string;
  action: () => void;
}

/** Opens the palette with what was typed before it was there, or closes it when it is open. */
export function openPalette(typed = ""): void {
  const open = document.querySelector<HTMLDialogElement>("dialog.palette");
  if (open) open.close();
  else new Palette().show(typed);
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

  show(typed: string): void {
    forgetLists();
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
    this.#type(typed);
    this.#dialog.showModal();
    const input = this.#dialog.querySelector("input")!;
    input.value = typed;
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
      icon: iconOf(link),
      label: link.querySelector("span")?.textContent ?? link.textContent.trim(),
      hint: link.dataset.key && `g ${link.dataset.key}`,
      action: () => this.#go(link.href),
    }));
    const actions = [
      { group: gettext("Actions"), icon: "sun-moon", label: gettext("Theme: light or dark"), hint: "t", action: toggleTheme },
      ...(refusal() === undefined
        ? [{ group: gettext("Actions"), icon: "star", label: gettext("Save this view…"), action: () => this.#go(viewOf(location.pathname + location.search)) }]
        : []),
      {
        group: gettext("Actions"),
        icon: "circle-help",
        label: gettext("Keyboard shortcuts"),
        hint: "?",
        action: () => document.querySelector<HTMLElement>("[data-action=keys]")!.click(),
      },
    ];
    const latest = () => recent().map(({ label, href }) => ({ group: gettext("Recent"), icon: "history", label, action: () => this.#go(href) }));
    if (!query) return [...latest(), ...pages, ...actions];
    return [...pages, ...actions].filter(({ label }) => hasWords(label, query));
  }

  /** Results of the broker as they come: commands for texts such as `pause dc`, else pages. */
  async #seek(): Promise<void> {
    const number = ++this.#asked;
    const { verb, kind, name: query } = queryOf(this.#text, refusal() === undefined ? VERBS : []);
    const known = this.#here();
    const found: Found[][] = [];
    this.#busy = true;
    this.#draw();
    await search(query, (place, those) => {
      if (number !== this.#asked) return;
      found[place] = those;
      const all = found.flat();
      this.#take(
        verb
          ? [...all.filter((one) => verb.of.includes(one.kind) && (kind ?? one.kind) === one.kind).map((one) => this.#command(verb, one)), ...known]
          : [...known, ...all.map((one) => this.#place(one))],
      );
    });
    if (number !== this.#asked) return;
    this.#busy = false;
    this.#draw();
  }

  /** Show other entries; what arrow keys have chosen stays chosen. */
  #take(entries: Entry[]): void {
    const chosen = this.#at > 0 ? this.#entries[this.#at] : undefined;
    this.#entries = entries;
    this.#at = Math.max(
      0,
      entries.findIndex((entry) => entry.group === chosen?.group && entry.label === chosen.label),
    );
    this.#draw();
  }

  #command({ word, icon, action }: Verb, { kind, name }: Found): Entry {
    return { group: gettext("Actions"), icon, label: `${word} ${name}`, hint: KINDS[kind], action: () => void action(kind, name) };
  }

  #place({ kind, name, href, hint }: Found): Entry {
    return { group: TITLES[kind], icon: ICONS[kind], label: name, hint: hint || KINDS[kind], action: () => this.#go(href) };
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
      html`<div class="ask">
          ${iconView("search")}
          <input
            type="text" role="combobox" aria-expanded="true" aria-controls="palette-list" aria-autocomplete="list" autofocus autocomplete="off" spellcheck="false"
            aria-label=${gettext("Search or jump")} placeholder=${gettext("a page, a queue, a client, a setting, a message id; or: pause dc-west")}
            aria-activedescendant=${this.#entries.length ? `palette-${this.#at}` : nothing}
            @input=${(event: InputEvent) => this.#type((event.target as HTMLInputElement).value)}
            @keydown=${(event: KeyboardEvent) => this.#key(event)}
          />
          <kbd aria-hidden="true">Esc</kbd>
        </div>
        <ul id="palette-list" role="listbox" aria-label=${gettext("Results")}>
          ${this.#entries.map((entry, index) => this.#line(entry, index))}
        </ul>
        <p class="quiet" role="status">${this.#entries.length ? nothing : this.#busy ? gettext("Searching…") : gettext("No results.")}</p>
        <footer aria-hidden="true"><span><kbd>↑</kbd><kbd>↓</kbd> ${gettext("up and down")}</span><span><kbd>Enter</kbd> ${gettext("choose")}</span></footer>`,
      this.#dialog,
    );
  }

  #line({ group, icon, label, hint }: Entry, index: number): TemplateResult {
    const begins = this.#entries[index - 1]?.group !== group;
    return html`<li role="option" id=${`palette-${index}`} aria-selected=${index === this.#at} data-group=${begins ? group : nothing}
      @click=${() => this.#choose(this.#entries[index])}>
      ${iconView(icon)}<span class="name">${parted(label, this.#text).map((part, at) => (at % 2 ? html`<mark>${part}</mark>` : part))}</span>${hint ? html`<span class="quiet">${hint}</span>` : nothing}
    </li>`;
  }
}

/** The icon of a page, as its link has it. */
function iconOf(link: HTMLAnchorElement): string {
  return link.querySelector("use")?.getAttribute("href")?.split("#")[1] ?? "user";
}

const ICONS: Record<Kind, string> = {
  message: "file-text",
  queue: "inbox",
  topic: "radio",
  client: "plug-zap",
  bridge: "arrow-left-right",
  callback: "webhook",
  reflex: "zap",
  user: "user",
  rule: "shield-check",
  "alert rule": "bell",
  setting: "sliders-horizontal",
};

const TITLES: Record<Kind, string> = {
  message: gettext("Message"),
  queue: gettext("Queues"),
  topic: gettext("Topics"),
  client: gettext("Clients"),
  bridge: gettext("Bridges"),
  callback: gettext("Callbacks"),
  reflex: gettext("Reflexes"),
  user: gettext("Users"),
  rule: gettext("Rules"),
  "alert rule": gettext("Alert rules"),
  setting: gettext("Settings"),
};

interface Verb {
  word: string;
  icon: string;
  of: Kind[];
  action: (kind: Kind, name: string) => Promise<void> | void;
}
type Held = "queue" | "bridge";

const VERBS: Verb[] = [
  { word: gettext("Pause"), icon: "circle-pause", of: ["queue", "bridge"], action: (kind, name) => hold(kind as Held, name, true) },
  { word: gettext("Resume"), icon: "play", of: ["queue", "bridge"], action: (kind, name) => hold(kind as Held, name, false) },
  { word: gettext("Publish"), icon: "send", of: ["queue", "topic"], action: (kind, name) => visit(pageOf(`/${kind}/${name}`, "publish")) },
];

/** Pause or resume, with a toast that offers Undo. */
async function hold(kind: Held, name: string, paused: boolean): Promise<void> {
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

function setHeld(kind: Held, name: string, paused: boolean, reason: string): Promise<unknown> {
  const change = kind === "bridge" ? { desired: paused ? "paused" : "running" } : { paused: paused ? "all" : null };
  const path = kind === "bridge" ? `bridges/${encodeURIComponent(name)}` : pathOf(kind, name);
  return request("PATCH", path, change, reason, "*");
}

function showFault(fault: unknown): void {
  showToast({ text: errorText(fault), tone: "bad" });
}
