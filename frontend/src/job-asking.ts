/** Acts on many messages: a dry run in the dialog, then a job, then a toast with the way to it. */

import { html, type TemplateResult } from "lit";
import { ask } from "./asking.ts";
import { act, inWords } from "./live/requests.ts";
import { say, sayCount } from "./say.ts";
import { tell } from "./toasts.ts";
import { count, fullTime } from "./view/format.ts";

/** What a dry run foresees. */
export interface Plan {
  plan: string;
  matches: number;
  count: number;
  by_origin: Record<string, number>;
  by_reason: Record<string, number>;
  oldest: string | null;
  newest: string | null;
  warnings: string[];
}

export interface Job {
  id: string;
  state: string;
  total: number;
}

export interface JobQuestion {
  /** What is asked of `POST /jobs`. */
  wish: { op: string; source: string; target?: string; filter?: unknown; limit?: number };
  title: string;
  effect: string;
  act: string;
  danger?: boolean;
  /** What has to be typed in production. */
  typed?: string;
  /** What is said when it has begun. */
  begun: (job: Job) => string;
  /** Whether it may be done at a rate, so that consumers are not flooded. */
  paced?: boolean;
}

const { basePath = "/" } = document.body.dataset;

/** Asks, and begins the job. Resolves to null when nothing was begun; what went wrong is told. */
export async function askJob({ wish, paced, begun, ...question }: JobQuestion): Promise<Job | null> {
  let plan: Plan | undefined;
  const draw = async (more: object = {}) => {
    plan = await act<Plan>("POST", "jobs", { ...wish, ...more, dry_run: true });
    if (plan.count === 0) throw new Error(say("There is nothing to do: no message fits."));
    return plan;
  };
  const answer = await ask({
    ...question,
    dryRun: async () => foreseen(await draw()),
    ...(paced && { fields: pace() }),
  });
  if (answer === null) return null;
  try {
    const rate = Number(answer.fields.get("rate_per_s") ?? 0);
    const chosen = rate > 0 ? await draw({ rate_per_s: rate }) : plan!;
    const job = await act<Job>("POST", "jobs", { plan: chosen.plan }, answer.reason);
    const link = { href: `${basePath}console/jobs/one?id=${encodeURIComponent(job.id)}`, text: say("See the job") };
    tell({ text: begun(job), tone: "good", link, ...(undoable(wish.op) && { undo: () => void undo(job) }) });
    return job;
  } catch (fault) {
    tell({ text: inWords(fault), tone: "bad" });
    return null;
  }
}

function undoable(op: string): boolean {
  return op === "move" || op === "retry";
}

async function undo(job: Job): Promise<void> {
  try {
    await act("POST", `jobs/${encodeURIComponent(job.id)}/undo`);
    tell({ text: say("They are on their way back."), tone: "good" });
  } catch (fault) {
    tell({ text: inWords(fault), tone: "bad" });
  }
}

function pace(): TemplateResult {
  return html`<label>${say("At most so many a second; empty is as fast as it goes")}
    <input name="rate_per_s" type="number" min="1" max="100000" step="1" inputmode="numeric" />
  </label>`;
}

/** The dry run in words. */
function foreseen(plan: Plan): TemplateResult {
  const shares = (of: Record<string, number>) =>
    Object.entries(of)
      .slice(0, 5)
      .map(([name, number]) => `${name} ${count(number)}`)
      .join(" · ");
  return html`<span class="foreseen">
    <b>${sayCount("{count} message now", "{count} messages now", plan.count)}</b>
    ${plan.oldest && plan.newest ? html`<span>${say("from {oldest} to {newest}", { oldest: fullTime(plan.oldest), newest: fullTime(plan.newest) })}</span>` : ""}
    ${Object.keys(plan.by_origin).length ? html`<span>${say("to")}: ${shares(plan.by_origin)}</span>` : ""}
    ${Object.keys(plan.by_reason).length ? html`<span>${say("why they died")}: ${shares(plan.by_reason)}</span>` : ""}
    ${plan.warnings.map((warning) => html`<span class="state" data-tone="warn">▲ ${warning}</span>`)}
  </span>`;
}
