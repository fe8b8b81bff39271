/** Actions that cannot be undone: they start ten seconds after they were confirmed, and can be cancelled until then. */

import { gettext } from "./gettext.ts";
import { showToast } from "./toasts.ts";

const DELAY_MS = 10_000;

/** Run the action after a delay, or when the page is left, unless it is cancelled. */
export function runDelayed(text: string, action: () => Promise<unknown>): void {
  const forget = () => {
    clearTimeout(timer);
    removeEventListener("pagehide", now);
  };
  const now = () => {
    forget();
    void action();
  };
  const timer = setTimeout(now, DELAY_MS);
  addEventListener("pagehide", now);
  const undo = () => {
    forget();
    showToast({ text: gettext("Cancelled: no changes were made."), tone: "quiet" });
  };
  showToast({ text, tone: "warn", undo });
}
