/** Starts every page of the console. What only one page needs is loaded by that page's islands. */

import { wake } from "./elements.ts";
import { bindKeys } from "./keys.ts";
import { loaded } from "./modules.ts";
import { startNavigation } from "./navigation.ts";
import { say } from "./say.ts";
import { pulse, session } from "./services.ts";
import { toggleTheme } from "./theme.ts";

const showKeys = () => void import("./key-list.ts").then((list) => list.showKeys());
const showPalette = async () => (await import("./palette.ts")).openPalette();
bindKeys(
  { keys: "$mod+k", says: say("Search or jump"), deed: () => void showPalette(), everywhere: true },
  { keys: "t", says: say("Theme: light or dark"), deed: toggleTheme },
  { keys: "[Shift]+?", says: say("This list"), deed: showKeys },
);

document.addEventListener("click", (event) => {
  const target = event.target as Element;
  if (target.closest("[data-deed=theme]")) toggleTheme();
  if (target.closest("[data-deed=keys]")) showKeys();
  if (target.closest("[data-deed=palette]")) void showPalette();
  const copies = target.closest<HTMLElement>("[data-copy]");
  if (copies) void import("./copying.ts").then((copying) => copying.copyFrom(copies));
});

function arrived(): void {
  // What only a script can do is shown only where one runs.
  for (const element of document.querySelectorAll<HTMLElement>("[data-scripted]")) element.hidden = false;
  wake(document);
  document.dispatchEvent(new Event("mom:arrived"));
}

startNavigation(arrived);
arrived();

pulse.hear(session);
session.watch(() => {
  if (session.status.kind === "signed out") void loaded(() => import("./signing-in.ts")).then((signing) => signing.showSignIn());
});
void session.start();
void loaded(() => import("./later.ts"));
