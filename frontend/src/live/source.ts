import type { ReactiveController, ReactiveControllerHost } from "lit";

/** An observable object. Listeners are notified of changes, and read what they need. */
export class Source {
  readonly #listeners = new Set<() => void>();

  /** Calls `listener` after each change until the returned function is called. */
  watch(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  get isFollowed(): boolean {
    return this.#listeners.size > 0;
  }

  protected changed(): void {
    for (const listener of this.#listeners) listener();
  }
}

/** Redraws an element whenever one of its sources changes, for as long as it is on the page. */
export class Follow implements ReactiveController {
  #unwatch: (() => void)[] = [];

  constructor(
    private readonly host: ReactiveControllerHost,
    private readonly sources: () => Source[],
  ) {
    host.addController(this);
  }

  hostConnected(): void {
    this.#unwatch = this.sources().map((source) => source.watch(() => this.host.requestUpdate()));
  }

  hostDisconnected(): void {
    for (const unwatch of this.#unwatch) unwatch();
  }
}
