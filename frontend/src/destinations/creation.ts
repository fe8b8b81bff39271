/** The dialog that creates a queue or topic. */

import { html } from "lit";
import { confirmAction } from "../confirm-dialog.ts";
import { gettext } from "../gettext.ts";
import { errorText, request } from "../live/requests.ts";
import { pageOf } from "../pages.ts";
import { showToast } from "../toasts.ts";
import { pathOf, type Kind } from "./address.ts";

/** Ask for a name, and create a queue or topic. Resolves to the name, or to null. */
export async function create(kind: Kind): Promise<string | null> {
  const answer = await confirmAction({
    title: kind === "queue" ? gettext("New queue") : gettext("New topic"),
    effect:
      kind === "queue"
        ? gettext("A queue keeps messages until a consumer acknowledges them. Dots in its name create branches in the tree.")
        : gettext("A topic delivers each message to all its subscribers. Dots in its name create levels for wildcards."),
    button: gettext("Create"),
    fields: html`<label>${gettext("Name")}<input name="name" required maxlength="255" autocomplete="off" spellcheck="false" autofocus /></label>
      <label>${gettext("Maximum number of messages; empty: no limit")}<input name="most" type="number" min="1" step="1" /></label>`,
  });
  if (answer === null) return null;
  const name = String(answer.fields.get("name") ?? "").trim();
  const most = Number(answer.fields.get("most"));
  try {
    await request("PUT", pathOf(kind, name), most ? { max_messages: most } : {}, answer.reason);
  } catch (fault) {
    showToast({ text: errorText(fault), tone: "bad" });
    return null;
  }
  showToast({ text: gettext("{name} was created.", { name }), tone: "good", link: { href: pageOf(`/${kind}/${name}`), text: gettext("Open") } });
  return name;
}
