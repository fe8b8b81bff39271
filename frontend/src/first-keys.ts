/** What is typed into something that is still being loaded. */

/** Load a module, and give it with the characters that were typed meanwhile; nothing else obeys them. */
export async function withFirstKeys<Module>(load: () => Promise<Module>): Promise<[Module, string]> {
  let typed = "";
  const keep = (event: KeyboardEvent) => {
    if (event.key.length !== 1 || event.ctrlKey || event.metaKey || event.altKey) return;
    typed += event.key;
    event.preventDefault();
    event.stopImmediatePropagation();
  };
  addEventListener("keydown", keep, { capture: true });
  try {
    return [await load(), typed];
  } finally {
    removeEventListener("keydown", keep, { capture: true });
  }
}
