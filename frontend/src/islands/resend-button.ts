import { html } from "lit";
import { askJob } from "../job-asking.ts";
import { say } from "../say.ts";
import { Island } from "./island.ts";

/** Sends dead letters of a flow again: they go back to the queue in which they died, and from there on their way. */
export class ResendButton extends Island {
  static override properties = { queue: {}, to: {} };
  declare queue: string;
  declare to: string;

  protected override render() {
    return html`<button type="button" class="plain" aria-label=${say("Send the dead letters of {to} again", { to: this.to })} @click=${() => this.#ask()}>
      ${say("Send again…")}
    </button>`;
  }

  async #ask(): Promise<void> {
    await askJob({
      wish: { op: "retry", source: this.queue },
      title: say("Send the dead letters of {to} again", { to: this.to }),
      effect: say("They go back to the end of the queue in which they died, without the headers that they got by dying, and are forwarded from there."),
      act: say("Send again"),
      begun: () => say("The dead letters of {to} are sent again.", { to: this.to }),
    });
  }
}

customElements.define("mom-resend-button", ResendButton);
