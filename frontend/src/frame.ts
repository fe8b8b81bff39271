/** Starts the plain pages: they work without it, and are nicer with it. */

import { toggleTheme } from "./theme.ts";

const COPIED_MS = 1500;

async function copy(button: HTMLElement): Promise<void> {
  const text = document.querySelector(button.dataset.copy!)!.textContent;
  const label = button.textContent;
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
  } catch {
    button.textContent = "Copying is not allowed here";
  }
  setTimeout(() => (button.textContent = label), COPIED_MS);
}

document.addEventListener("click", (event) => {
  const target = event.target as Element;
  if (target.closest("[data-deed=theme]")) toggleTheme();
  const copies = target.closest<HTMLElement>("[data-copy]");
  if (copies) void copy(copies);
});
addEventListener("keydown", (event) => {
  const inField = (event.target as Element).closest("input, textarea, select") !== null;
  if (event.key === "t" && !inField && !event.ctrlKey && !event.metaKey && !event.altKey) toggleTheme();
});
// What only a script can do is shown only where one runs.
for (const element of document.querySelectorAll<HTMLElement>("[data-scripted]")) element.hidden = false;
