import { html, nothing, type TemplateResult } from "lit";
import { confirmAction } from "../confirm-dialog.ts";
import { gettext, ngettext } from "../gettext.ts";
import { errorText, read, request } from "../live/requests.ts";
import { showToast } from "../toasts.ts";
import { fullTime } from "../view/format.ts";
import { Island } from "./island.ts";
import { hintOf, refusal } from "../view/refusal.ts";

interface Order {
  by: string;
  reason: string;
  at: string;
}

interface Broker {
  name: string;
  state: "OPERATING" | "QUIESCE_STARTED" | "QUIESCE_COMPLETE" | "SHUTDOWN_STARTED";
  quiesced: Order | null;
  paused: Order | null;
  /** That is planned, in so many seconds. */
  shutdown: (Order & { left_s: number }) | null;
  clients: Record<string, number>;
  other_addresses: string[];
  restart_refusal: string;
}

/** What an administrator may order; the words of `mom broker`. */
type Verb = "quiesce" | "unquiesce" | "pause" | "resume" | "restart";

interface Choice {
  label: string;
  title: string;
  effect: string;
  button: string;
  done: string;
}

const EVERY_MS = 5000;

/** The state of the broker, with the orders to quiesce, pause and restart it. */
export class BrokerState extends Island {
  static override properties = { broker: {}, found: { state: true }, fault: { state: true } };
  /** Its name, without which no broker takes an order. */
  declare broker: string;
  declare found: Broker | undefined;
  declare fault: string;

  #timer = 0;

  override connectedCallback(): void {
    super.connectedCallback();
    void this.#load();
    this.#timer = window.setInterval(() => void (document.hidden || this.#load()), EVERY_MS);
  }

  override disconnectedCallback(): void {
    super.disconnectedCallback();
    window.clearInterval(this.#timer);
  }

  protected override render() {
    const { found } = this;
    if (found === undefined) return this.fault ? html`<p class="notice" data-tone="bad">${this.fault}</p>` : nothing;
    const stops = found.state === "SHUTDOWN_STARTED";
    return html`<p role="status">${stateOf(found)}</p>
      ${found.shutdown ? html`<p class="notice" data-tone="warn">${stopsIn(found.shutdown.left_s)} ${orderOf(gettext("Ordered"), found.shutdown)}</p>` : nothing}
      ${found.quiesced ? html`<p class="hint">${orderOf(gettext("Quiesced"), found.quiesced)}</p>` : nothing}
      ${found.paused ? html`<p class="hint">${orderOf(gettext("Paused"), found.paused)}</p>` : nothing}
      <div class="tools">
        ${this.#button(found.quiesced ? "unquiesce" : "quiesce", stops)}
        ${this.#button(found.paused ? "resume" : "pause", stops)}
        ${this.#button("restart", stops || found.restart_refusal !== "")}
      </div>
      ${found.restart_refusal ? html`<p class="hint">${gettext("It cannot be restarted from here: {reason}", { reason: found.restart_refusal })}</p>` : nothing}`;
  }

  #button(verb: Verb, disabled: boolean): TemplateResult {
    return html`<button type="button" ?disabled=${disabled || refusal() !== undefined} title=${hintOf()} @click=${() => void this.#ask(verb)}>${choiceOf(verb, this.broker).label}</button>`;
  }

  async #load(): Promise<void> {
    try {
      this.found = await read<Broker>("broker");
      this.fault = "";
    } catch (fault) {
      this.fault = errorText(fault);
    }
  }

  async #ask(verb: Verb): Promise<void> {
    const name = this.broker;
    const { title, effect, button, done } = choiceOf(verb, name);
    // The other orders are taken back by their opposites, next to them.
    const typed = verb === "restart" ? { typed: name } : {};
    const answer = await confirmAction({ title, effect, button, ...typed, danger: verb === "pause" || verb === "restart", dryRun: reached });
    if (answer === null) return;
    try {
      await request("POST", `broker/${verb}`, { name, reason: answer.reason });
      showToast({ text: done, tone: verb === "quiesce" || verb === "pause" || verb === "restart" ? "warn" : "good" });
    } catch (fault) {
      showToast({ text: errorText(fault), tone: "bad" });
    }
    await this.#load();
  }
}

/** The clients that are connected, before an order. */
async function reached(): Promise<string> {
  return clientsOf(await read<Broker>("broker"));
}

function clientsOf({ clients }: Broker): string {
  const number = Object.values(clients).reduce((sum, one) => sum + one, 0);
  return number === 0 ? gettext("No client is connected.") : ngettext("{count} client is connected.", "{count} clients are connected.", number);
}

function stateOf(found: Broker): string {
  if (found.state === "SHUTDOWN_STARTED") return gettext("The broker stops.");
  const clients = clientsOf(found);
  if (found.paused !== null) return `${gettext("The broker is paused: it serves no clients.")} ${clients}`;
  if (found.quiesced === null) return `${gettext("The broker takes and serves clients.")} ${clients}`;
  const elsewhere = found.other_addresses.join(", ");
  return `${gettext("The broker is quiesced: it takes no new clients.")} ${clients}${elsewhere ? ` ${gettext("New ones are sent to {addresses}.", { addresses: elsewhere })}` : ""}`;
}

function stopsIn(seconds: number): string {
  return gettext("It stops in {seconds} s; Unquiesce calls that off.", { seconds: Math.round(seconds) });
}

function orderOf(what: string, { by, reason, at }: Order): TemplateResult {
  return html`${gettext("{what} by {user}", { what, user: by })}, <time datetime=${at} title=${at}>${fullTime(at)}</time>${reason ? `: ${reason}` : ""}`;
}

function choiceOf(verb: Verb, name: string): Choice {
  switch (verb) {
    case "quiesce":
      return {
        label: gettext("Quiesce…"),
        title: gettext("Quiesce {name}", { name }),
        effect: gettext(
          "New clients are refused, with the addresses of other brokers if there are any; clients that are connected go on. It ends with Unquiesce, or when the broker stops.",
        ),
        button: gettext("Quiesce"),
        done: gettext("{name} takes no new clients.", { name }),
      };
    case "unquiesce":
      return {
        label: gettext("Unquiesce…"),
        title: gettext("Unquiesce {name}", { name }),
        effect: gettext("The broker takes new clients again."),
        button: gettext("Unquiesce"),
        done: gettext("{name} takes new clients.", { name }),
      };
    case "pause":
      return {
        label: gettext("Pause…"),
        title: gettext("Pause {name}", { name }),
        effect: gettext(
          "Nothing is read from clients, and nothing delivered to them, until it is resumed or the broker stops. Connections stay open; new clients are refused. The console goes on.",
        ),
        button: gettext("Pause"),
        done: gettext("{name} serves no clients.", { name }),
      };
    case "resume":
      return {
        label: gettext("Resume…"),
        title: gettext("Resume {name}", { name }),
        effect: gettext("The broker serves its clients again."),
        button: gettext("Resume"),
        done: gettext("{name} serves clients.", { name }),
      };
    case "restart":
      return {
        label: gettext("Restart…"),
        title: gettext("Restart {name}", { name }),
        effect: gettext(
          "The broker stops as when it is shut down, and starts again with the same options. Its clients are disconnected and can connect again after some seconds. Persistent messages are kept; others are lost.",
        ),
        button: gettext("Restart"),
        done: gettext("{name} restarts.", { name }),
      };
  }
}

customElements.define("mom-broker-state", BrokerState);
