import { html } from "lit";
import { confirmAction } from "../confirm-dialog.ts";
import { gettext, ngettext } from "../gettext.ts";
import { errorText, request } from "../live/requests.ts";
import { showToast } from "../toasts.ts";
import { hintOf, refusal } from "../view/refusal.ts";
import type { AutoRefresh } from "./auto-refresh.ts";
import { Island } from "./island.ts";

/** Removes a member of the enhanced cluster that is gone for good, with its journals. */
export class MemberRemoval extends Island {
  static override properties = { member: {}, messages: { type: Number } };
  declare member: string;
  /** Stored in its journal, as was last noted. */
  declare messages: number;

  protected override render() {
    return html`<button type="button" ?disabled=${refusal() !== undefined} title=${hintOf()} aria-label=${gettext("Remove member {member}", { member: this.member })} @click=${() => void this.#ask()}>
      ${gettext("Remove…")}
    </button>`;
  }

  async #ask(): Promise<void> {
    const { member, messages } = this;
    const answer = await confirmAction({
      title: gettext("Remove member {member}", { member }),
      effect: `${gettext("Its journals are deleted from the store, and it is listed no longer. A broker that is started with its name is a new member.")} ${
        messages > 0
          ? ngettext("{count} message in its journal was not delivered.", "{count} messages in its journal were not delivered.", messages)
          : gettext("Its journal has no message, as was last noted.")
      }`,
      fields: html`<label class="check"><input type="checkbox" name="force" /> ${gettext("Delete messages that were not delivered; they are lost")}</label>`,
      button: gettext("Remove"),
      danger: true,
      typed: member,
    });
    if (answer === null) return;
    try {
      await request("POST", "cluster/remove", { member, force: answer.fields.has("force") }, answer.reason);
      showToast({ text: gettext("{member} is no longer a member of the cluster.", { member }), tone: "good" });
      await this.closest<AutoRefresh>("mom-auto-refresh")?.refresh();
    } catch (fault) {
      showToast({ text: errorText(fault), tone: "bad" });
    }
  }
}

customElements.define("mom-member-removal", MemberRemoval);
