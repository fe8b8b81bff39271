/** Code of every page that is not needed to render it: navigation shortcuts, rows, times in the chosen zone. */

import { bindShortcuts } from "./shortcuts.ts";
import { visit } from "./navigation.ts";
import { remember } from "./recent.ts";
import "./rows.ts";
import { gettext } from "./gettext.ts";
import { showTimes } from "./times.ts";
import { loadModule } from "./load-module.ts";

for (const link of document.querySelectorAll<HTMLAnchorElement>("#navigation a[data-key]")) {
  const title = link.textContent.trim();
  bindShortcuts({ keys: `g ${link.dataset.key}`, label: gettext("Go to {page}", { page: title }), action: () => visit(link.href) });
}

function arrived(): void {
  showTimes(document);
  remember();
}
arrived();
document.addEventListener("mom:arrived", arrived);

// Loaded while the broker is there: it is needed when the broker is lost.
const { cluster, mirrors } = document.body.dataset;
// A mirror serves as the broker that is lost, another one of its cluster does not.
if (mirrors) void loadModule(() => import("./islands/failover-banner.ts"));
else if (cluster) void loadModule(() => import("./islands/cluster-banner.ts"));
