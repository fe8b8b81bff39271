import type { ReactiveController, ReactiveControllerHost } from "lit";
import { session } from "../services.ts";
import { isPassing } from "./rest.ts";

const RETRY_MS = 5_000;

/**
 * Reads again what an element could not read because the broker was away: every few seconds, and at once when the
 * conversation with it is live again. What the broker refused is not asked for again.
 */
export class Retry implements ReactiveController {
  #timer: ReturnType<typeof setTimeout> | undefined;
  #unwatch: (() => void) | undefined;

  constructor(
    host: ReactiveControllerHost,
    private readonly read: () => void,
  ) {
    host.addController(this);
  }

  hostConnected(): void {
    this.#unwatch = session.watch(() => {
      if (this.#timer !== undefined && session.status.kind === "live") this.#now();
    });
  }

  hostDisconnected(): void {
    this.#unwatch?.();
    this.#forget();
  }

  /** Called with the fault of each reading, or with nothing when there was none. */
  after(fault?: unknown): void {
    this.#forget();
    if (isPassing(fault)) this.#timer = setTimeout(() => this.#now(), RETRY_MS);
  }

  #now(): void {
    this.#forget();
    this.read();
  }

  #forget(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }
}
