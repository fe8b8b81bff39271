/**
 * Failover between the brokers that share a journal. `Session` reconnects to the page's own origin, where a proxy may have
 * another broker answer. Cookies and scripts belong to an origin: to follow a broker elsewhere, the whole page moves.
 */

import { session } from "../services.ts";
import { hasUnsavedInput } from "../unsaved.ts";
import { OWN, othersOf, pageAt, urisOf } from "./consoles.ts";
import { Source } from "./source.ts";

/** The response of `GET failover-list`. */
interface FailoverList {
  name: string;
  active: string | null;
  brokers: { web: string; uris: string[] }[];
}

const { broker = "", mirrors = "" } = document.body.dataset;
/** Those that this page may ask. */
const LISTED = mirrors.split(" ");
const ANSWER_MS = 2_000;
const MOVE_MS = 5_000;
/** A proxy is where users mean to be: it has time to find the broker that serves. */
const BEHIND_PROXY_MS = 15_000;

/** The brokers of this name while the connection is lost, and the move to the one that serves. */
class Failover extends Source {
  /** The console of the broker that serves, if it is not at the page's own origin. */
  successor: string | undefined;
  /** Whether the page moves there by itself. */
  moves = true;
  /** Seconds from finding the successor until the page moves. */
  readonly moveDelayS: number;
  #asks = false;
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor() {
    super();
    this.moveDelayS = (LISTED.includes(OWN) ? MOVE_MS : BEHIND_PROXY_MS) / 1_000;
    session.subscribe("/topic/$mom.failover", (body) => session.learn(urisOf(JSON.parse(body))));
    session.watch(() => this.#follow());
    this.#follow();
  }

  /** The consoles of the other brokers. Those that came after the page cannot be asked (its CSP), but followed. */
  get others(): string[] {
    return othersOf([...session.brokers, ...LISTED]);
  }

  stay(): void {
    this.moves = false;
    this.changed();
  }

  #follow(): void {
    const { kind } = session.status;
    if (kind === "reconnecting") void this.#sweep();
    else if (kind !== "connecting" && kind !== "refused") this.#lead(undefined);
  }

  /** Each failed attempt at the own origin is followed by one at all others. */
  async #sweep(): Promise<void> {
    if (this.#asks) return;
    this.#asks = true;
    const probed = this.others.filter((web) => LISTED.includes(web));
    const answers = await Promise.all(probed.map(serves));
    this.#asks = false;
    if (session.status.kind === "reconnecting") this.#lead(probed[answers.indexOf(true)]);
  }

  #lead(successor: string | undefined): void {
    if (successor === this.successor) return;
    clearTimeout(this.#timer);
    this.successor = successor;
    this.moves = !hasUnsavedInput();
    if (successor !== undefined) this.#timer = setTimeout(() => void this.#move(successor), this.moveDelayS * 1_000);
    this.changed();
  }

  async #move(successor: string): Promise<void> {
    if (hasUnsavedInput()) this.stay();
    if (!this.moves) return;
    // The session is about to reconnect if the own origin serves.
    if (!(await isReady())) location.replace(pageAt(successor));
  }
}

/** Whether the broker with this console serves; a standby answers, too, and a broker of another name has other messages. */
async function serves(web: string): Promise<boolean> {
  try {
    const reply = await asked(`${web}/failover-list`);
    const { name, active, brokers } = (await reply.json()) as FailoverList;
    return name === broker && brokers.some((one) => one.web === web && one.uris.join() === active);
  } catch {
    return false;
  }
}

/** Whether a broker serves at the page's own origin. */
function isReady(): Promise<boolean> {
  return asked(`${OWN}/health/ready`).then(
    (reply) => reply.ok,
    () => false,
  );
}

function asked(address: string): Promise<Response> {
  return fetch(address, { cache: "no-store", credentials: "omit", signal: AbortSignal.timeout(ANSWER_MS) });
}

export const failover = new Failover();
