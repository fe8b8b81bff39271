/** Actions on one message. */

import { confirmAction } from "../confirm-dialog.ts";
import { JobToast } from "../islands/job-toast.ts";
import { runDelayed } from "../delayed-action.ts";
import { gettext } from "../gettext.ts";
import { showToast } from "../toasts.ts";
import { begin, faultOf, plan, remove, type Message } from "./requests.ts";

/** Retry one dead letter immediately, with Undo. */
export async function retryOne(queue: string, message: Message): Promise<void> {
  try {
    const drawn = await plan({ op: "retry", source: queue, filter: { ids: [message.id] } });
    JobToast.show(await begin(drawn.plan));
  } catch (error) {
    showToast({ text: faultOf(error, gettext("The broker cannot be reached. The job was not started.")), tone: "bad" });
  }
}

/** Ask for confirmation, and delete one message after a delay in which it can be cancelled. */
export async function deleteOne(queue: string, message: Message, gone: () => void): Promise<void> {
  const answer = await confirmAction({
    title: gettext("Delete message #{position} of {queue}", { position: message.position, queue }),
    effect: gettext("The message is deleted permanently after ten seconds; until then it can be undone."),
    button: gettext("Delete"),
    danger: true,
    typed: queue,
  });
  if (answer === null) return;
  runDelayed(gettext("Message #{position} will be deleted.", { position: message.position }), { isSingle: true }, async () => {
    try {
      await remove(queue, message.id, answer.reason);
      gone();
    } catch (error) {
      showToast({ text: faultOf(error, gettext("The broker cannot be reached.")), tone: "bad" });
    }
  });
}
