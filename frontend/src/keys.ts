/** Keys of the page: bound here alone, so that the list of keys is complete and a setting can turn them off. */

import { tinykeys } from "tinykeys";

export interface Key {
  /** As tinykeys spells it: "g q", "[Shift]+?". */
  keys: string;
  says: string;
  deed: (event: KeyboardEvent) => void;
}

const bound = new Set<Key>();

/** Binds keys until the returned function is called. They rest inside fields and open dialogs. */
export function bindKeys(...keys: Key[]): () => void {
  const unbind = tinykeys(window, Object.fromEntries(keys.map((key) => [key.keys, (event) => press(key, event)])));
  for (const key of keys) bound.add(key);
  return () => {
    unbind();
    for (const key of keys) bound.delete(key);
  };
}

/** What can be pressed on this page, in the order in which it was bound. */
export function boundKeys(): Key[] {
  return [...bound];
}

function press(key: Key, event: KeyboardEvent): void {
  // A key pressed inside an editor comes out of its shadow as one on its host.
  const target = event.composedPath()[0] as Element;
  if (target.closest("input, textarea, select, [contenteditable]") || document.querySelector("dialog[open]")) return;
  event.preventDefault();
  key.deed(event);
}
