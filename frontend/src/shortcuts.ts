/** Keyboard shortcuts. All are bound here, so that the list is complete and a setting can turn them off. */

import { tinykeys } from "tinykeys";

export interface Key {
  /** As tinykeys spells it: "g q", "[Shift]+?", "$mod+k". */
  keys: string;
  label: string;
  action: (event: KeyboardEvent) => void;
  /** Whether it also works in fields. */
  everywhere?: boolean;
}

/** Shortcuts by keys, newest last: those of a page precede those of the frame. */
const bound = new Map<string, Key[]>();

/** Bind shortcuts until the returned function is called. They are inactive in fields and open dialogs. */
export function bindShortcuts(...keys: Key[]): () => void {
  for (const key of keys) {
    const same = bound.get(key.keys);
    if (same) same.push(key);
    else {
      bound.set(key.keys, [key]);
      // In fields and while a key is held down, too: which keys rest there is decided by `press`.
      const ignore = (event: KeyboardEvent) => event.isComposing;
      tinykeys(window, { [key.keys]: (event) => press(bound.get(key.keys)!.at(-1), event) }, { ignore });
    }
  }
  return () => {
    for (const key of keys) bound.get(key.keys)!.splice(bound.get(key.keys)!.indexOf(key), 1);
  };
}

/** The shortcuts of this page, in the order in which they were bound. */
export function boundShortcuts(): Key[] {
  return [...bound.values()].flatMap((same) => same.slice(-1));
}

/** Whether shortcuts without Ctrl are enabled; users of speech input, for example, turn them off. */
export function singleKeysEnabled(): boolean {
  return !/(^|; )mom_keys=off/.test(document.cookie);
}

function press(key: Key | undefined, event: KeyboardEvent): void {
  if (key === undefined || document.querySelector("dialog[open]")) return;
  if (!key.everywhere) {
    // A key pressed in an editor comes out of its shadow as one on its host.
    const target = event.composedPath()[0] as Element;
    if (!singleKeysEnabled() || target.closest("input:not([type=checkbox], [type=radio]), textarea, select, [contenteditable]")) return;
  }
  event.preventDefault();
  key.action(event);
}
