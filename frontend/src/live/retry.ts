import type { ReactiveController, ReactiveControllerHost } from "lit";
import { session } from "../services.ts";
import { isPassing } from "./rest.ts";

const RETRY_MS = 5_000;

/**
 * Repeats failed requests of an element: every few seconds, and as soon as the connection is live again. Refused
 * requests are not repeated. When another broker serves, all are: it may have fewer messages.
 */
export class Retry implements ReactiveController {
  #timer: ReturnType<typeof setTimeout> | undefined;
  #unwatch: (() => void) | undefined;
  #servedBy: string | undefined;

  constructor(
    host: ReactiveControllerHost,
    private readonly read: () => void,
  ) {
    host.addController(this);
  }

  hostConnected(): void {
    this.#servedBy = session.brokers[0];
    this.#unwatch = session.watch(() => {
      if (session.status.kind !== "live") return;
      const before = this.#servedBy;
      this.#servedBy = session.brokers[0];
      if (this.#timer !== undefined || (before !== undefined && before !== this.#servedBy)) this.#now();
    });
  }

  hostDisconnected(): void {
    this.#unwatch?.();
    this.#forget();
  }

  /** Call this with the error of each request, or without one after success. */
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
