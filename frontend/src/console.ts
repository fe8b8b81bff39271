/** The entry of every page of the console. Code for single pages is loaded by their islands. */

import { loadIslands, showScripted } from "./elements.ts";
import { withFirstKeys } from "./first-keys.ts";
import { bindShortcuts } from "./shortcuts.ts";
import { loadModule } from "./load-module.ts";
import { startNavigation } from "./navigation.ts";
import { gettext } from "./gettext.ts";
import { nodeStatus, session } from "./services.ts";
import { toggleTheme } from "./theme.ts";

const showShortcuts = () => void import("./shortcut-list.ts").then((list) => list.showShortcuts());
const showPalette = async () => {
  const [palette, typed] = await withFirstKeys(() => import("./palette.ts"));
  palette.openPalette(typed);
};
bindShortcuts(
  { keys: "$mod+k", label: gettext("Search or jump"), action: () => void showPalette(), everywhere: true },
  { keys: "t", label: gettext("Theme: light or dark"), action: toggleTheme },
  { keys: "[Shift]+?", label: gettext("This list"), action: showShortcuts },
);

document.addEventListener("click", (event) => {
  const target = event.target as Element;
  if (target.closest("[data-action=theme]")) toggleTheme();
  if (target.closest("[data-action=keys]")) showShortcuts();
  if (target.closest("[data-action=palette]")) void showPalette();
  const copies = target.closest<HTMLElement>("[data-copy]");
  if (copies) void import("./clipboard.ts").then((copying) => copying.copyFrom(copies));
});

function arrived(): void {
  showScripted(document);
  loadIslands(document);
  document.dispatchEvent(new Event("mom:arrived"));
}

startNavigation(arrived);
arrived();

nodeStatus.hear(session);
session.watch(() => {
  if (session.status.kind === "signed out") void loadModule(() => import("./sign-in-dialog.ts")).then((signing) => signing.showSignIn());
});
void session.start();
void loadModule(() => import("./deferred.ts"));
