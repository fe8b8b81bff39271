import { Source } from "./source.ts";

const PAUSE_MS = 150;

/** The filter above the tree of destinations, which the broker applies. */
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
    this.changed();
  }
}

export const explorerFilter = new ExplorerFilter();
