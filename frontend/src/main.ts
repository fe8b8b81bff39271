/** Starts the console page: builds what it needs, hands it to the islands, binds the keys. */

import { tinykeys } from "tinykeys";
import { DestinationList } from "./islands/destination-list.ts";
import { DestinationPanel } from "./islands/destination-panel.ts";
import { Explorer } from "./islands/explorer.ts";
import type { Island } from "./islands/island.ts";
import { KeyList } from "./islands/key-list.ts";
import { LivePill } from "./islands/live-pill.ts";
import { NodeFacts } from "./islands/node-facts.ts";
import { Rest, type Snapshot } from "./live/rest.ts";
import { Session } from "./live/session.ts";
import { Statistics } from "./live/statistics.ts";
import { Place } from "./place.ts";
import { toggleTheme } from "./theme.ts";
import type { Server } from "./view/snippets.ts";

const { basePath = "/", stompPort = "", user = "" } = document.body.dataset;
const base = location.origin + basePath;

const rest = new Rest(`${base}api/v1/`);
const session = new Session(`${base.replace(/^http/, "ws")}ws`, () => rest.isSignedIn());
const statistics = new Statistics();
const place = new Place();
const server: Server = { origin: base.replace(/\/$/, ""), host: location.hostname, stompPort, user };

/** Upgrades the page's element of this name. It has what it needs before it first draws. */
function mount<Kind extends Island>(name: string, kind: new () => Kind, needs: Partial<Kind>): Kind {
  const element = document.querySelector<Kind>(name)!;
  Object.assign(element, needs);
  customElements.define(name, kind);
  return element;
}

/** The first numbers come by REST, so that the page is filled before the live ones flow. */
async function readFirstSnapshot(): Promise<void> {
  try {
    const snapshot = await rest.snapshot();
    // A node that has just started has taken no numbers yet.
    if (snapshot.time) statistics.apply(snapshot);
  } catch {
    // The live snapshots follow in a second, or the pill says why not.
  }
}

mount("mom-live-pill", LivePill, { session, statistics });
mount("mom-node-facts", NodeFacts, { statistics });
mount("mom-explorer", Explorer, { statistics, place });
const list = mount("mom-destination-list", DestinationList, { statistics, place, server });
const panel = mount("mom-destination-panel", DestinationPanel, { session, statistics, rest, place, server });
const keys = mount("mom-key-list", KeyList, {});

const newMessage = () => place.go({ tab: "publish" });

tinykeys(window, {
  "/": (event) => {
    event.preventDefault();
    list.focusFilter();
  },
  j: () => list.moveFocus(1),
  k: () => list.moveFocus(-1),
  p: newMessage,
  t: toggleTheme,
  "[Shift]+?": () => keys.open(),
});
// Unlike the letters, Escape also works from inside a field.
addEventListener("keydown", (event) => {
  if (event.key === "Escape" && document.querySelector("dialog[open]") === null) panel.close();
});
panel.addEventListener("panel-closed", (event) => list.focusRow((event as CustomEvent<string>).detail));

document.addEventListener("click", (event) => {
  const target = event.target as Element;
  if (target.closest("[data-deed=publish]")) newMessage();
  if (target.closest("[data-deed=theme]")) toggleTheme();
  if (target.closest("[data-deed=keys]")) keys.open();
  const link = target.closest<HTMLAnchorElement>("a[data-place]");
  if (link === null || event.ctrlKey || event.metaKey || event.shiftKey || event.button !== 0) return;
  event.preventDefault();
  place.visit(new URL(link.href));
});

session.watch(() => {
  if (session.status.kind === "connecting" || session.status.kind === "reconnecting") statistics.expectAny();
});
session.subscribe("/topic/$mom.stats", (body) => statistics.apply(JSON.parse(body) as Snapshot));
session.start();
void readFirstSnapshot();
