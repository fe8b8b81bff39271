/** Decides when a part of a page is updated: soon after an event, else `everyMs` after the last update. */
export class UpdateTimer {
  readonly #update: () => void;
  readonly #everyMs: number;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #isSoon = false;

  constructor(update: () => void, everyMs: number) {
    this.#update = update;
    this.#everyMs = everyMs;
  }

  /** Update within `ms`. Further events do not postpone it. */
  soon(ms: number): void {
    if (this.#isSoon) return;
    this.#set(ms);
    this.#isSoon = true;
  }

  /** Update after the usual time, unless an event has happened since the last update. */
  later(): void {
    if (!this.#isSoon) this.#set(this.#everyMs);
  }

  stop(): void {
    clearTimeout(this.#timer);
    this.#isSoon = false;
  }

  #set(ms: number): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => {
      this.#isSoon = false;
      this.#update();
    }, ms);
  }
}
