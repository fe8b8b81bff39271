import { Source } from "./source.ts";

const PAUSE_MS = 150;

/** The filter above the explorer: pages are filtered here, destinations by the broker. */
class ExplorerFilter extends Source {
  text = "";
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor() {
    super();
    const field = document.querySelector<HTMLInputElement>("#tree-filter")!;
    field.addEventListener("input", () => {
      clearTimeout(this.#timer);
      this.#timer = setTimeout(() => this.#seek(field.value.trim()), PAUSE_MS);
    });
    field.addEventListener("keydown", (event) => {
      if (event.key !== "Escape" || !field.value) return;
      field.value = "";
      this.#seek("");
    });
  }

  #seek(text: string): void {
    this.text = text;
    const query = text.toLowerCase();
    for (const line of document.querySelectorAll<HTMLElement>("#navigation li:not(:has(mom-branch)):not(mom-branch li):not(:has(> details))")) {
      line.hidden = !line.textContent.toLowerCase().includes(query);
    }
    this.changed();
  }
}

export const explorerFilter = new ExplorerFilter();
