import { job, type Job } from "../messages/requests.ts";
import { session } from "../services.ts";
import { isOpen } from "./labels.ts";

/** The interval of polling without a subscription. */
const POLL_MS = 2_000;

type Progress = Pick<Job, "state" | "total" | "processed" | "done" | "gone" | "unsettled" | "refused" | "reason" | "can_undo">;

/**
 * Call `report` with the job now and after each change, until it has ended or the returned function is called. Progress
 * is read from `$mom.job.<id>`, or by polling without the right to subscribe.
 */
export function watchJob(id: string, report: (job: Job) => void, fail: (error: unknown) => void): () => void {
  let known: Job | undefined;
  let ended = false;
  const take = (changed: Job) => {
    if (ended) return;
    known = changed;
    if (!isOpen(changed)) stop();
    report(changed);
  };
  const read = () => job(id).then(take, (error: unknown) => void (ended || fail(error)));
  const unsubscribe = session.subscribe(`/topic/$mom.job.${id}`, (body) => {
    const { data } = JSON.parse(body) as { data: Progress };
    if (known === undefined) return;
    // A finished job is loaded once more, since progress reports are incomplete.
    if (isOpen(data)) take({ ...known, ...data });
    else void read();
  });
  const poll = setInterval(() => void read(), POLL_MS);
  const stop = () => {
    ended = true;
    clearInterval(poll);
    unsubscribe();
  };
  void read();
  return stop;
}
