/** What every page has and none needs to be drawn: keys that lead around, rows, times in their zone. */

import { bindShortcuts } from "./shortcuts.ts";
import { visit } from "./navigation.ts";
import { remember } from "./recent.ts";
import "./rows.ts";
import { gettext } from "./gettext.ts";
import { showTimes } from "./times.ts";

for (const link of document.querySelectorAll<HTMLAnchorElement>("#navigation a[data-key]")) {
  const title = link.textContent.trim();
  bindShortcuts({ keys: `g ${link.dataset.key}`, says: gettext("Go to {page}", { page: title }), action: () => visit(link.href) });
}

function arrived(): void {
  showTimes(document);
  remember();
}
arrived();
document.addEventListener("mom:arrived", arrived);
