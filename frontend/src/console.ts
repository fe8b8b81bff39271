/** Starts every page of the console. What only one page needs is loaded by that page's islands. */

import htmx from "htmx.org";
import { wake } from "./elements.ts";
import { copyFrom } from "./copying.ts";
import type { KeyList } from "./islands/key-list.ts";
import { bindKeys } from "./keys.ts";
import { say } from "./say.ts";
import { session, statistics } from "./services.ts";
import type { Snapshot } from "./live/rest.ts";
import { toggleTheme } from "./theme.ts";

/** Goes to a page of the console: its main part is exchanged, the frame and the conversation stay. */
function visit(address: string): void {
  void htmx.ajax("GET", address, { target: "#main", select: "#main", swap: "outerHTML", push: "true" } as object);
}

const showKeys = () => document.querySelector<KeyList>("mom-key-list")!.open();
bindKeys(
  { keys: "t", says: say("Theme: light or dark"), deed: toggleTheme },
  { keys: "[Shift]+?", says: say("This list"), deed: showKeys },
);

document.addEventListener("click", (event) => {
  const target = event.target as Element;
  if (target.closest("[data-deed=theme]")) toggleTheme();
  if (target.closest("[data-deed=keys]")) showKeys();
  const copies = target.closest<HTMLElement>("[data-copy]");
  if (copies) void copyFrom(copies);
  const link = target.closest<HTMLAnchorElement>("a[href]");
  // htmx takes the links that pages came with; those that islands drew are ours.
  if (link === null || event.defaultPrevented || link.hasAttribute("data-htmx-powered")) return;
  if (link.origin !== location.origin || link.target || link.hasAttribute("download")) return;
  if (link.closest("[data-island]") === null || event.ctrlKey || event.metaKey || event.shiftKey || event.button !== 0) return;
  event.preventDefault();
  visit(link.href);
});

function arrived(root: ParentNode): void {
  // What only a script can do is shown only where one runs.
  for (const element of root.querySelectorAll<HTMLElement>("[data-scripted]")) element.hidden = false;
  wake(root);
}

document.addEventListener("htmx:after:swap", () => arrived(document));
arrived(document);

session.watch(() => {
  if (session.status.kind === "connecting" || session.status.kind === "reconnecting") statistics.expectAny();
});
session.subscribe("/topic/$mom.stats", (body) => statistics.apply(JSON.parse(body) as Snapshot));
session.start();
