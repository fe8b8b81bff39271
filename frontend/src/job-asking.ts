/** Acts on many messages: a dry run in the dialog, then a job, then a toast that tells how far it is, with Undo. */

import { html, nothing, type TemplateResult } from "lit";
import { ask } from "./asking.ts";
import { JobToast } from "./islands/job-toast.ts";
import "./islands/queue-name.ts";
import { inWords } from "./live/requests.ts";
import { begin, plan, type Job, type Plan, type Wish } from "./messages/requests.ts";
import { say, sayCount } from "./say.ts";
import { tell } from "./toasts.ts";
import { bodyOf, preview } from "./view/body.ts";
import { ago, count, fullTime } from "./view/format.ts";

export interface JobQuestion {
  /** What is asked of `POST /jobs`; what the dialog asks for is added. */
  wish: Wish;
  title: string;
  effect: string;
  act: string;
  danger?: boolean;
  /** What has to be typed in production. */
  typed?: string;
  /** Whether the dialog asks for the queue to which they go. */
  target?: "none" | "optional" | "needed";
  /** Whether it may be done at a rate, so that consumers are not flooded, and stops when too many are refused. */
  paced?: boolean;
  /** What is said while it can still be taken back: then it begins ten seconds later. */
  held?: (count: number) => string;
}

/** How long an act without undo can be taken back: so long it is only promised. */
const HELD_MS = 10_000;
const NAMED = 4;

/** Asks, and begins the job. Resolves to null when nothing was begun (yet); what went wrong is told. */
export async function askJob({ wish, paced, target = "none", held, ...question }: JobQuestion): Promise<Job | null> {
  let drawn: Plan | undefined;
  const answer = await ask({
    ...question,
    fields: fields(target, paced ?? false),
    dryRun: async (given) => {
      if (target === "needed" && !given.get("target")) return say("Select a queue to see a preview.");
      drawn = await plan(completed(wish, given));
      if (drawn.count === 0) throw new Error(say("Nothing to do: no message matches."));
      return foreseen(drawn);
    },
  });
  if (answer === null || drawn === undefined) return null;
  const chosen = drawn;
  const start = async () => {
    try {
      const job = await begin(chosen.plan, answer.reason);
      JobToast.show(job);
      return job;
    } catch (fault) {
      tell({ text: inWords(fault), tone: "bad" });
      return null;
    }
  };
  if (held === undefined) return start();
  hold(held(chosen.count), start);
  return null;
}

/** Does it a while later, or when the page is left, unless it is taken back. */
export function hold(text: string, deed: () => Promise<unknown>): void {
  const forget = () => {
    clearTimeout(timer);
    removeEventListener("pagehide", now);
  };
  const now = () => {
    forget();
    void deed();
  };
  const timer = setTimeout(now, HELD_MS);
  addEventListener("pagehide", now);
  const undo = () => {
    forget();
    tell({ text: say("Cancelled: no changes were made."), tone: "quiet" });
  };
  tell({ text, tone: "warn", undo });
}

function fields(target: JobQuestion["target"], paced: boolean): TemplateResult {
  const label = target === "optional" ? say("Target queue (empty: the origin of each message)") : say("Target queue");
  return html`${target === "none" ? nothing : html`<mom-queue-name name="target" ?optional=${target === "optional"} label=${label}></mom-queue-name>`}
    ${paced
      ? html`<div class="fields">
          <label>${say("Message limit")}<input name="limit" type="number" min="1" max="1000000" placeholder=${say("all")} /></label>
          <label>${say("Messages per second")}<input name="rate" type="number" min="1" max="1000000" placeholder=${say("unlimited")} /></label>
          <label>${say("Stop when this percentage fails")}<input name="ratio" type="number" min="1" max="100" value="20" /></label>
        </div>`
      : nothing}`;
}

/** The wish with what the dialog was told. */
function completed(wish: Wish, given: FormData): Wish {
  const text = (name: string) => String(given.get(name) ?? "").trim();
  const [limit, rate, ratio] = ["limit", "rate", "ratio"].map((name) => Number(text(name)));
  return {
    ...wish,
    ...(text("target") && { target: text("target") }),
    ...(limit && { limit }),
    ...(rate && { rate_per_s: rate }),
    ...(ratio && { max_error_ratio: ratio / 100 }),
  };
}

/** What a plan says: how many, how old, where from and why, some of them, and what may go wrong. */
function foreseen(drawn: Plan): TemplateResult {
  const times = drawn.oldest && drawn.newest;
  return html`<div class="foreseen">
    <p><strong>${sayCount("{count} message", "{count} messages", drawn.count)}</strong>${drawn.matches > drawn.count
      ? html` ${say("of {matches} matching", { matches: count(drawn.matches) })}`
      : nothing}${times
      ? html` · ${say("oldest")} <time datetime=${drawn.oldest!} title=${fullTime(drawn.oldest!)}>${ago(drawn.oldest!)}</time> ·
          ${say("newest")} <time datetime=${drawn.newest!} title=${fullTime(drawn.newest!)}>${ago(drawn.newest!)}</time>`
      : nothing}</p>
    ${shares(say("From"), drawn.by_origin)} ${shares(say("Reason"), drawn.by_reason)}
    ${drawn.warnings.map((warning) => html`<p class="hint" data-tone="warn">▲ ${warning}</p>`)}
    <details>
      <summary>${sayCount("{count} sample", "{count} samples", drawn.sample.length)}</summary>
      <ul class="samples">
        ${drawn.sample.map((message) => html`<li><span class="quiet num">#${message.position}</span> ${preview(bodyOf(message))}</li>`)}
      </ul>
    </details>
  </div>`;
}

function shares(label: string, counts: Record<string, number>): TemplateResult | typeof nothing {
  const entries = Object.entries(counts);
  if (entries.length === 0) return nothing;
  const others = entries.slice(NAMED).reduce((sum, [, number]) => sum + number, 0);
  return html`<p><span class="quiet">${label}:</span> ${entries.slice(0, NAMED).map(([name, number]) => `${name} ${count(number)}`).join(" · ")}${others
      ? ` · ${say("others")} ${count(others)}`
      : ""}</p>`;
}
