/** What came of an act, said at the edge of the page for a while. */

import { gettext } from "./gettext.ts";

export interface Toast {
  text: string;
  tone: "good" | "warn" | "bad" | "quiet";
  /** Where more is to be seen. */
  link?: { href: string; text: string };
  /** Takes the act back. */
  undo?: () => void;
}

const SHOWN_MS = 10_000;

/** Says it. A toast with Undo stays as long as undoing makes sense to offer: ten seconds. */
export function showToast({ text, tone, link, undo }: Toast): void {
  const toast = document.createElement("div");
  toast.className = "notice toast";
  toast.dataset.tone = tone;
  toast.append(text);
  if (link) {
    const anchor = document.createElement("a");
    anchor.href = link.href;
    anchor.textContent = link.text;
    toast.append(" ", anchor);
  }
  if (undo) {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = gettext("Undo");
    button.addEventListener("click", () => {
      toast.remove();
      undo();
    });
    toast.append(" ", button);
  }
  document.querySelector("#toasts")!.append(toast);
  setTimeout(() => toast.remove(), SHOWN_MS);
}
