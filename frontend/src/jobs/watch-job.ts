import { job, type Job } from "../messages/requests.ts";
import { session } from "../services.ts";
import { isOpen } from "./labels.ts";

/** Where progress cannot be heard, it is asked for so often. */
const POLL_MS = 2_000;

type Progress = Pick<Job, "state" | "total" | "processed" | "done" | "gone" | "unsettled" | "refused" | "reason" | "can_undo">;

/**
 * Calls `tell` with the job now and after each change, until it has ended or the returned function is called.
 *
 * Progress is heard on `$mom.job.<id>`; what cannot be heard (rights, no connection) is read now and then.
 */
export function watchJob(id: string, tell: (job: Job) => void, fail: (error: unknown) => void): () => void {
  let known: Job | undefined;
  let ended = false;
  const take = (news: Job) => {
    if (ended) return;
    known = news;
    if (!isOpen(news)) stop();
    tell(news);
  };
  const read = () => job(id).then(take, (error: unknown) => void (ended || fail(error)));
  const unsubscribe = session.subscribe(`/topic/$mom.job.${id}`, (body) => {
    const { data } = JSON.parse(body) as { data: Progress };
    if (known === undefined) return;
    // What has ended is read once more, for what progress does not tell.
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
