import { html } from "lit";
import { openBulkDialog } from "../messages/actions.ts";
import { gettext } from "../gettext.ts";
import { Island } from "./island.ts";
import { hintOf, refusal } from "../view/refusal.ts";

/** Sends dead letters of a flow again: they go back to the queue in which they died, and from there on their way. */
export class ResendButton extends Island {
  static override properties = { queue: {}, to: {} };
  declare queue: string;
  declare to: string;

  protected override render() {
    return html`<button
      type="button"
      class="plain"
      ?disabled=${refusal() !== undefined}
      title=${hintOf()}
      aria-label=${gettext("Resend the dead letters of {to}", { to: this.to })}
      @click=${() => void openBulkDialog("retry", this.queue, {})}
    >
      ${gettext("Resend…")}
    </button>`;
  }
}

customElements.define("mom-resend-button", ResendButton);
