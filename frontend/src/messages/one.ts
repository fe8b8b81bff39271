/** What can be done to one message. */

import { ask } from "../asking.ts";
import { JobToast } from "../islands/job-toast.ts";
import { hold } from "../job-asking.ts";
import { say } from "../say.ts";
import { tell } from "../toasts.ts";
import { begin, faultOf, plan, remove, type Message } from "./requests.ts";

/** Retries one dead letter at once: one key, one click, and Undo. */
export async function retryOne(queue: string, message: Message): Promise<void> {
  try {
    const drawn = await plan({ op: "retry", source: queue, filter: { ids: [message.id] } });
    JobToast.show(await begin(drawn.plan));
  } catch (error) {
    tell({ text: faultOf(error, say("The broker cannot be reached. The job was not started.")), tone: "bad" });
  }
}

/** Asks, then deletes one message after a while in which that can be taken back. */
export async function deleteOne(queue: string, message: Message, gone: () => void): Promise<void> {
  const answer = await ask({
    title: say("Delete message #{position} of {queue}", { position: message.position, queue }),
    effect: say("The message is deleted permanently after ten seconds; until then it can be undone."),
    act: say("Delete"),
    danger: true,
    typed: queue,
  });
  if (answer === null) return;
  hold(say("Message #{position} will be deleted.", { position: message.position }), async () => {
    try {
      await remove(queue, message.id, answer.reason);
      gone();
    } catch (error) {
      tell({ text: faultOf(error, say("The broker cannot be reached.")), tone: "bad" });
    }
  });
}
