import { Client, ReconnectionTimeMode, type IFrame, type IMessage, type StompSubscription } from "@stomp/stompjs";
import { parseProblem, type Problem } from "./problem.ts";
import { Source } from "./source.ts";

export type Status =
  | { kind: "connecting" }
  | { kind: "live" }
  | { kind: "reconnecting"; attempt: number; due: number }
  | { kind: "paused" }
  | { kind: "signed out" }
  | { kind: "refused"; problem: Problem };

/** What became of a published message; `tookMs` is the time from sending to the receipt. */
export type Outcome =
  | { kind: "confirmed"; tookMs: number }
  | { kind: "refused"; problem: Problem }
  | { kind: "unconfirmed"; why: string };

export interface Draft {
  destination: string;
  body: string;
  headers: Record<string, string>;
}

interface Pending {
  sentAt: number;
  settle: (outcome: Outcome) => void;
}

/** Who reads a destination, and the subscription for all of them while there is a connection. */
interface Heard {
  receivers: Set<(body: string) => void>;
  subscription?: StompSubscription;
}

const FIRST_DELAY_MS = 1_000;
const LONGEST_DELAY_MS = 10_000;
const RECEIPT_DEADLINE_MS = 30_000;
const HIDDEN_GRACE_MS = 30_000;
const REFUSED = "$mom.refused";

/**
 * The tab's one conversation with the broker: STOMP over WebSocket, authenticated by the session cookie.
 *
 * Reconnects for ever, with a growing delay, until the cookie is no longer good. A tab hidden for
 * half a minute gives its connection back and takes it up again when it is looked at.
 */
export class Session extends Source {
  status: Status = { kind: "connecting" };

  readonly #client: Client;
  readonly #heard = new Map<string, Heard>();
  readonly #pending = new Map<string, Pending>();
  #attempts = 0;
  #receipts = 0;
  #hiddenTimer: ReturnType<typeof setTimeout> | undefined;

  /** `isSignedIn` asks the server whether the cookie is still good; a network failure counts as yes. */
  constructor(
    url: string,
    private readonly isSignedIn: () => Promise<boolean>,
  ) {
    super();
    this.#client = new Client({
      brokerURL: url,
      connectHeaders: { "mom-soft-errors": "true" },
      reconnectDelay: FIRST_DELAY_MS,
      maxReconnectDelay: LONGEST_DELAY_MS,
      reconnectTimeMode: ReconnectionTimeMode.EXPONENTIAL,
      onConnect: () => this.#connected(),
      onStompError: (frame) => this.#failed(frame),
      onUnhandledMessage: (message) => this.#unhandled(message),
      onWebSocketClose: () => void this.#closed(),
    });
  }

  start(): void {
    document.addEventListener("visibilitychange", () => this.#visibilityChanged());
    this.#client.activate();
  }

  /**
   * Reads `destination` with `receive` (given each body) over every reconnection, until the returned function is
   * called. Several may read the same one.
   */
  subscribe(destination: string, receive: (body: string) => void): () => void {
    const heard = this.#heard.get(destination) ?? { receivers: new Set() };
    this.#heard.set(destination, heard);
    heard.receivers.add(receive);
    if (this.#client.connected && heard.subscription === undefined) this.#subscribe(destination, heard);
    return () => {
      heard.receivers.delete(receive);
      if (heard.receivers.size > 0 || this.#heard.get(destination) !== heard) return;
      this.#heard.delete(destination);
      if (this.#client.connected) heard.subscription?.unsubscribe();
    };
  }

  /** Sends and waits for the broker's word: a receipt is only sent once the message is safe. Never rejects. */
  publish(draft: Draft): Promise<Outcome> {
    if (!this.#client.connected) {
      return Promise.resolve({ kind: "unconfirmed", why: "Not sent: there is no connection to the broker." });
    }
    const receipt = `console-${++this.#receipts}`;
    const outcome = new Promise<Outcome>((resolve) => {
      const deadline = setTimeout(
        () => this.#settle(receipt, { kind: "unconfirmed", why: "No receipt within 30 s. It may or may not be stored." }),
        RECEIPT_DEADLINE_MS,
      );
      const settle = (settled: Outcome) => {
        clearTimeout(deadline);
        resolve(settled);
      };
      this.#pending.set(receipt, { sentAt: performance.now(), settle });
    });
    this.#client.watchForReceipt(receipt, () => {
      const sentAt = this.#pending.get(receipt)?.sentAt ?? performance.now();
      this.#settle(receipt, { kind: "confirmed", tookMs: performance.now() - sentAt });
    });
    this.#client.publish({ ...draft, headers: { ...draft.headers, receipt } });
    return outcome;
  }

  #connected(): void {
    this.#attempts = 0;
    for (const [destination, heard] of this.#heard) this.#subscribe(destination, heard);
    this.#become({ kind: "live" });
  }

  #subscribe(destination: string, heard: Heard): void {
    heard.subscription = this.#client.subscribe(destination, (message) => {
      for (const receive of heard.receivers) receive(message.body);
    });
  }

  #unhandled(message: IMessage): void {
    if (message.headers.subscription !== REFUSED) return;
    const problem = parseProblem(message.body, "Refused");
    this.#settle(message.headers["receipt-id"], { kind: "refused", problem });
  }

  #failed(frame: IFrame): void {
    const problem = parseProblem(frame.body, frame.headers.message ?? "The broker refused the connection");
    this.#settle(frame.headers["receipt-id"], { kind: "refused", problem });
    this.#become({ kind: "refused", problem });
  }

  async #closed(): Promise<void> {
    for (const receipt of [...this.#pending.keys()]) {
      const why = "The connection broke before the receipt came. The message may or may not be stored.";
      this.#settle(receipt, { kind: "unconfirmed", why });
    }
    if (!this.#client.active) return;
    // The same series as the client's own: doubled after each failure, up to the longest.
    const delay = Math.min(FIRST_DELAY_MS * 2 ** this.#attempts, LONGEST_DELAY_MS);
    this.#attempts += 1;
    this.#become({ kind: "reconnecting", attempt: this.#attempts, due: Date.now() + delay });
    if (await this.isSignedIn()) return;
    this.#become({ kind: "signed out" });
    await this.#client.deactivate();
  }

  #visibilityChanged(): void {
    clearTimeout(this.#hiddenTimer);
    if (document.hidden) {
      this.#hiddenTimer = setTimeout(() => void this.#pause(), HIDDEN_GRACE_MS);
    } else if (this.status.kind === "paused") {
      this.#become({ kind: "connecting" });
      this.#client.activate();
    }
  }

  async #pause(): Promise<void> {
    if (this.status.kind === "signed out") return;
    this.#become({ kind: "paused" });
    await this.#client.deactivate();
  }

  #settle(receipt: string | undefined, outcome: Outcome): void {
    const pending = receipt === undefined ? undefined : this.#pending.get(receipt);
    if (receipt === undefined || pending === undefined) return;
    this.#pending.delete(receipt);
    pending.settle(outcome);
  }

  #become(status: Status): void {
    this.status = status;
    this.changed();
  }
}
