/** Actions that cannot be undone: they start ten seconds after they were confirmed, and can be cancelled until then. */

import { gettext } from "./gettext.ts";
import { showToast } from "./toasts.ts";

const DELAY_MS = 10_000;

/**
 * Run the action after a delay, unless it is cancelled. When the page is left before, a single request is sent at once;
 * an action of many requests could not be completed and is not begun.
 */
export function runDelayed(text: string, { isSingle }: { isSingle: boolean }, action: () => Promise<unknown>): void {
  const forget = () => {
    clearTimeout(timer);
    removeEventListener("pagehide", now);
  };
  const now = () => {
    forget();
    void action();
  };
  const timer = setTimeout(now, DELAY_MS);
  if (isSingle) addEventListener("pagehide", now);
  const undo = () => {
    forget();
    showToast({ text: gettext("Cancelled: no changes were made."), tone: "quiet" });
  };
  showToast({ text, tone: "warn", undo });
}
