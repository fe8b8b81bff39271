import type { Client, IFrame, IMessage, StompSubscription } from "@stomp/stompjs";
import { loadModule } from "../load-module.ts";
import { parseProblem, type Problem } from "./problem.ts";
import { SIGNED_OUT } from "./requests.ts";
import { Source } from "./source.ts";

export type Status =
  | { kind: "connecting" }
  | { kind: "live" }
  | { kind: "reconnecting"; attempt: number; due: number }
  | { kind: "paused" }
  | { kind: "signed out" }
  | { kind: "refused"; problem: Problem };

/** The result of publishing a message; `tookMs` is the time from sending to the receipt. */
export type Outcome = { kind: "confirmed"; tookMs: number } | { kind: "refused"; problem: Problem } | { kind: "unconfirmed"; why: string };

export interface Draft {
  destination: string;
  body: string;
  headers: Record<string, string>;
}

/** The listeners of a destination, and the subscription that they share while connected. */
interface SharedSubscription extends SubscribeOptions {
  receivers: Set<(body: string) => void>;
  subscription?: StompSubscription;
}

/** Options of a subscription. Those of the first listener are used. */
export interface SubscribeOptions {
  headers?: Record<string, string>;
  /** Called when the broker refuses the subscription. */
  refused?: (problem: Problem) => void;
}

interface Pending {
  sentAt: number;
  settle: (outcome: Outcome) => void;
}

/** As the client library begins; doubled after each failure. */
const FIRST_DELAY_MS = 100;
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
  /** The consoles of the brokers that share the journal, the one that serves first; empty without mirrors. */
  brokers: string[] = [];

  #client: Client | undefined;
  readonly #subscriptions = new Map<string, SharedSubscription>();
  readonly #pending = new Map<string, Pending>();
  #attempts = 0;
  #receipts = 0;
  #hiddenTimer: ReturnType<typeof setTimeout> | undefined;

  /**
   * `isSignedIn` asks the server whether the cookie is still good; a network failure counts as yes. `longestDelayMs` is
   * the ceiling of the delay between attempts to connect.
   */
  constructor(
    private readonly url: string,
    private readonly isSignedIn: () => Promise<boolean>,
    private readonly longestDelayMs: number,
  ) {
    super();
  }

  /** Begins the conversation. The client is loaded only now: the page is drawn before. */
  async start(): Promise<void> {
    const { Client, ReconnectionTimeMode } = await loadModule(async () => {
      // Named here, or all of the library would come.
      const { Client, ReconnectionTimeMode } = await import("@stomp/stompjs");
      return { Client, ReconnectionTimeMode };
    });
    this.#client = new Client({
      brokerURL: this.url,
      connectHeaders: { "mom-soft-errors": "true" },
      reconnectDelay: FIRST_DELAY_MS,
      maxReconnectDelay: this.longestDelayMs,
      reconnectTimeMode: ReconnectionTimeMode.EXPONENTIAL,
      onConnect: (frame) => this.#connected(frame),
      onStompError: (frame) => this.#failed(frame),
      onUnhandledMessage: (message) => this.#unhandled(message),
      onWebSocketClose: () => void this.#closed(),
    });
    document.addEventListener("visibilitychange", () => this.#visibilityChanged());
    document.addEventListener(SIGNED_OUT, () => void this.#signedOut());
    this.#client.activate();
  }

  /**
   * Subscribe to `destination` across reconnections, until the returned function is called. `receive` gets each body.
   * Several listeners of a destination share a subscription.
   */
  subscribe(destination: string, receive: (body: string) => void, options: SubscribeOptions = {}): () => void {
    const shared = this.#subscriptions.get(destination) ?? { receivers: new Set(), ...options };
    this.#subscriptions.set(destination, shared);
    shared.receivers.add(receive);
    if (this.#client?.connected && shared.receivers.size === 1) this.#subscribe(destination, shared);
    return () => {
      shared.receivers.delete(receive);
      if (shared.receivers.size > 0 || this.#subscriptions.get(destination) !== shared) return;
      this.#subscriptions.delete(destination);
      if (this.#client?.connected) shared.subscription?.unsubscribe();
    };
  }

  /** Takes the broker's list of addresses; an empty one changes nothing. */
  learn(uris: string[]): void {
    // A console is where its WebSocket is.
    const sockets = uris.map((uri) => uri.trim()).filter((uri) => /^wss?:/.test(uri));
    const consoles = sockets.map((uri) => uri.replace(/^ws/, "http").replace(/\/ws$/, ""));
    if (consoles.length > 0) this.brokers = consoles;
  }

  /** Sends and waits for the broker's receipt, which is sent once the message is stored. Never rejects. */
  publish(draft: Draft): Promise<Outcome> {
    const client = this.#client;
    if (!client?.connected) {
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
    client.watchForReceipt(receipt, () => {
      const sentAt = this.#pending.get(receipt)?.sentAt ?? performance.now();
      this.#settle(receipt, { kind: "confirmed", tookMs: performance.now() - sentAt });
    });
    client.publish({ ...draft, headers: { ...draft.headers, receipt } });
    return outcome;
  }

  #connected(frame: IFrame): void {
    this.#attempts = 0;
    this.learn(frame.headers["mom-failover"]?.split(",") ?? []);
    for (const [destination, shared] of this.#subscriptions) this.#subscribe(destination, shared);
    this.#become({ kind: "live" });
  }

  #subscribe(destination: string, shared: SharedSubscription): void {
    const receipt = `subscription-${++this.#receipts}`;
    const settle = (outcome: Outcome) => outcome.kind === "refused" && shared.refused?.(outcome.problem);
    this.#pending.set(receipt, { sentAt: performance.now(), settle });
    this.#client!.watchForReceipt(receipt, () => this.#pending.delete(receipt));
    const receive = ({ body }: IMessage) => {
      for (const receiver of shared.receivers) receiver(body);
    };
    shared.subscription = this.#client!.subscribe(destination, receive, { ...shared.headers, receipt });
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
    if (!this.#client?.active || this.status.kind === "signed out") return;
    // The same series as the client's own: doubled after each failure, up to the longest.
    const delay = Math.min(FIRST_DELAY_MS * 2 ** this.#attempts, this.longestDelayMs);
    this.#attempts += 1;
    this.#become({ kind: "reconnecting", attempt: this.#attempts, due: Date.now() + delay });
    if (!(await this.isSignedIn())) await this.#signedOut();
  }

  async #signedOut(): Promise<void> {
    if (this.status.kind === "signed out") return;
    clearTimeout(this.#hiddenTimer);
    this.#become({ kind: "signed out" });
    await this.#client?.deactivate();
  }

  #visibilityChanged(): void {
    clearTimeout(this.#hiddenTimer);
    if (document.hidden) {
      this.#hiddenTimer = setTimeout(() => void this.#pause(), HIDDEN_GRACE_MS);
    } else if (this.status.kind === "paused") {
      this.#become({ kind: "connecting" });
      this.#client!.activate();
    }
  }

  async #pause(): Promise<void> {
    if (this.status.kind === "signed out") return;
    this.#become({ kind: "paused" });
    await this.#client!.deactivate();
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
