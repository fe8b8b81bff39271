/** Toasts: short messages at the edge of the page. */

import { gettext } from "./gettext.ts";

export interface Toast {
  text: string;
  tone: "good" | "warn" | "bad" | "quiet";
  /** A link to details. */
  link?: { href: string; text: string };
  /** Undoes the action. */
  undo?: () => void;
}

const SHOWN_MS = 10_000;

/** Show a toast for ten seconds. */
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
