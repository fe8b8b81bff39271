import { html, type TemplateResult } from "lit";
import { confirmAction } from "../confirm-dialog.ts";
import { gettext, ngettext } from "../gettext.ts";
import { errorText, read, request } from "../live/requests.ts";
import { showToast } from "../toasts.ts";
import { Island } from "./island.ts";
import { hintOf, refusal } from "../view/refusal.ts";

interface Mirrors {
  items: {
    brokers: { id: string; state: string; in_step: boolean }[];
    would_be_lost: { non_persistent: number | null };
  }[];
}

/** Shuts the broker down, after a preview of what ends and what takes over. */
export class ShutdownButton extends Island {
  static override properties = { broker: {} };
  /** Its name, without which no broker is shut down. */
  declare broker: string;

  protected override render() {
    return html`<button type="button" ?disabled=${refusal() !== undefined} title=${hintOf()} @click=${() => void this.#ask()}>${gettext("Shut down…")}</button>`;
  }

  async #ask(): Promise<void> {
    const name = this.broker;
    const answer = await confirmAction({
      title: gettext("Shut down {name}", { name }),
      effect: gettext(
        "The broker accepts nothing more, finishes what it has accepted, notifies its clients and stops. It does not start by itself: start it again on its host.",
      ),
      button: gettext("Shut down"),
      danger: true,
      typed: name,
      dryRun: effects,
    });
    if (answer === null) return;
    try {
      await request("POST", "shutdown", { name, reason: answer.reason });
      showToast({ text: gettext("{name} shuts down.", { name }), tone: "warn" });
    } catch (fault) {
      showToast({ text: errorText(fault), tone: "bad" });
    }
  }
}

/** What ends, and what takes over. */
async function effects(): Promise<TemplateResult> {
  const one = { limit: 1 };
  const [connections, services, subscribers, mirrors, origins] = await Promise.all([
    read<{ all: number }>("connections", one),
    read<{ approx_total: number }>("services", one),
    read<{ approx_total: number }>("subscribers", one),
    read<Mirrors>("mirrors"),
    read<{ callback_broker: boolean }>("origins"),
  ]);
  return html`
    <p>${ngettext("{count} connection ends: that of this page.", "{count} connections end, with that of this page.", connections.all)}</p>
    <p>
      ${ngettext("{count} service is deregistered", "{count} services are deregistered", services.approx_total)},
      ${ngettext("{count} subscriber is called no more.", "{count} subscribers are called no more.", subscribers.approx_total)}
    </p>
    <p>${origins.callback_broker ? gettext("Programs of this machine receive from their origins directly.") : successorOf(mirrors)}</p>
  `;
}

/** Which mirror takes over, and what is lost. */
function successorOf({ items: [mirror] }: Mirrors): string {
  const standbys = mirror?.brokers.filter(({ state }) => state === "standby") ?? [];
  const successor = standbys.find(({ in_step }) => in_step) ?? standbys[0];
  if (mirror === undefined || successor === undefined) {
    return gettext("No mirror takes over: nothing can be sent or received until the broker runs again. Its persistent messages are kept; others may be lost.");
  }
  const { non_persistent: number } = mirror.would_be_lost;
  const takes = gettext("The mirror {id} takes over; clients with a failover address connect to it, and this page follows.", { id: successor.id });
  if (number === null) return `${takes} ${gettext("Messages that are not persistent are lost.")}`;
  return `${takes} ${ngettext("{count} message that is not persistent is lost.", "{count} messages that are not persistent are lost.", number)}`;
}

customElements.define("mom-shutdown-button", ShutdownButton);
