/**
 * Times in the chosen zone. Pages send `<time datetime>` in UTC; in lists (`data-ago`) it is shown as how long ago, on
 * hover and elsewhere whole, and copied as programs read it.
 */

import { ago, fullTime } from "./view/format.ts";

const AGO_EVERY_MS = 10_000;

/** Format the times below `root`. */
export function showTimes(root: ParentNode): void {
  for (const element of root.querySelectorAll<HTMLTimeElement>("time[datetime]:not([data-island] *)")) {
    if (Number.isNaN(Date.parse(element.dateTime))) continue;
    element.title = fullTime(element.dateTime);
    element.textContent = element.dataset.ago === undefined ? fullTime(element.dateTime) : ago(element.dateTime);
  }
}

setInterval(() => {
  for (const element of document.querySelectorAll<HTMLTimeElement>("time[data-ago]:not([data-island] *)")) element.textContent = ago(element.dateTime);
}, AGO_EVERY_MS);

/** Times are copied in ISO format. */
document.addEventListener("copy", (event) => {
  const selection = getSelection();
  const element = selection?.anchorNode?.parentElement?.closest<HTMLTimeElement>("time[datetime]");
  if (!element || selection?.focusNode?.parentElement !== element) return;
  event.clipboardData?.setData("text/plain", element.dateTime);
  event.preventDefault();
});
