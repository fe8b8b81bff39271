import { html } from "lit";
import { confirmAction } from "../confirm-dialog.ts";
import { gettext, ngettext } from "../gettext.ts";
import { errorText, request } from "../live/requests.ts";
import { showToast } from "../toasts.ts";
import { Island } from "./island.ts";
import { hintOf, refusal } from "../view/refusal.ts";

interface Preview {
  to: string;
  would_be_lost: { persistent: number; non_persistent: number | null };
}

/** Has a standby take over without loss, after a preview. The page then follows to the broker that serves. */
export class SwitchoverButton extends Island {
  static override properties = { broker: {}, from: {}, to: {} };
  /** The name that all brokers of the journal have. */
  declare broker: string;
  /** The broker that is active. */
  declare from: string;
  declare to: string;

  protected override render() {
    return html`<button type="button" ?disabled=${refusal() !== undefined} title=${hintOf()} aria-label=${gettext("Switch over to {to}", { to: this.to })} @click=${() => void this.#ask()}>
      ${gettext("Switch over…")}
    </button>`;
  }

  async #ask(): Promise<void> {
    const { from, to } = this;
    const answer = await confirmAction({
      title: gettext("Switch over to {to}", { to }),
      effect: gettext(
        "{from} stops to serve, {to} takes over at once, and {from} becomes its standby. Clients are disconnected and connect to {to}; messages that they have not acknowledged are delivered again. This page follows to {to}.",
        { from, to },
      ),
      button: gettext("Switch over"),
      typed: this.broker,
      dryRun: async () => lossOf(await this.#order<Preview>({ to, dry_run: true })),
    });
    if (answer === null) return;
    try {
      await this.#order({ to, reason: answer.reason });
      showToast({ text: gettext("{to} takes over. This page follows within seconds.", { to }), tone: "good" });
    } catch (fault) {
      showToast({ text: errorText(fault), tone: "bad" });
    }
  }

  #order<Reply>(body: { to: string; reason?: string; dry_run?: boolean }): Promise<Reply> {
    return request<Reply>("POST", `mirrors/${encodeURIComponent(this.broker)}/switchover`, body);
  }
}

/** The loss in a sentence. */
function lossOf({ would_be_lost: { non_persistent: number } }: Preview): string {
  const kept = gettext("No persistent message that was confirmed is lost.");
  if (number === null) return `${kept} ${gettext("Non-persistent messages are lost; their number is not known.")}`;
  if (number === 0) return `${kept} ${gettext("No non-persistent message waits now.")}`;
  return `${kept} ${ngettext("About {count} non-persistent message is lost.", "About {count} non-persistent messages are lost.", number)}`;
}

customElements.define("mom-switchover-button", SwitchoverButton);
