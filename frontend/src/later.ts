/** What every page has and none needs to be drawn: keys that lead around, rows, times in their zone. */

import { bindKeys } from "./keys.ts";
import { visit } from "./navigation.ts";
import { remember } from "./recent.ts";
import "./rows.ts";
import { say } from "./say.ts";
import { showTimes } from "./times.ts";

for (const link of document.querySelectorAll<HTMLAnchorElement>("#ways a[data-key]")) {
  const title = link.textContent.trim();
  bindKeys({ keys: `g ${link.dataset.key}`, says: say("Go to {page}", { page: title }), deed: () => visit(link.href) });
}

function arrived(): void {
  showTimes(document);
  remember();
}
arrived();
document.addEventListener("mom:arrived", arrived);
