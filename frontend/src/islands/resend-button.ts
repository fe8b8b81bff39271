import { html } from "lit";
import { doToMany } from "../messages/acts.ts";
import { say } from "../say.ts";
import { Island } from "./island.ts";

/** Sends dead letters of a flow again: they go back to the queue in which they died, and from there on their way. */
export class ResendButton extends Island {
  static override properties = { queue: {}, to: {} };
  declare queue: string;
  declare to: string;

  protected override render() {
    return html`<button
      type="button"
      class="plain"
      aria-label=${say("Resend the dead letters of {to}", { to: this.to })}
      @click=${() => void doToMany("retry", this.queue, {})}
    >
      ${say("Resend…")}
    </button>`;
  }
}

customElements.define("mom-resend-button", ResendButton);
