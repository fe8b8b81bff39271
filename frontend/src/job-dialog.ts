/** Acts on many messages: a dry run in the dialog, then a job, then a toast that tells how far it is, with Undo. */

import { html, nothing, type TemplateResult } from "lit";
import { confirmAction } from "./confirm-dialog.ts";
import { JobToast } from "./islands/job-toast.ts";
import "./islands/queue-name.ts";
import { errorText } from "./live/requests.ts";
import { begin, plan, type Job, type Plan, type JobRequest } from "./messages/requests.ts";
import { gettext, ngettext } from "./gettext.ts";
import { showToast } from "./toasts.ts";
import { bodyOf, preview } from "./view/body.ts";
import { ago, count, fullTime } from "./view/format.ts";

export interface JobDialogOptions {
  /** What is asked of `POST /jobs`; what the dialog asks for is added. */
  jobRequest: JobRequest;
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
export async function openJobDialog({ jobRequest, paced, target = "none", held, ...question }: JobDialogOptions): Promise<Job | null> {
  let drawn: Plan | undefined;
  const answer = await confirmAction({
    ...question,
    fields: fields(target, paced ?? false),
    dryRun: async (given) => {
      if (target === "needed" && !given.get("target")) return gettext("Select a queue to see a preview.");
      drawn = await plan(completed(jobRequest, given));
      if (drawn.count === 0) throw new Error(gettext("Nothing to do: no message matches."));
      return previewText(drawn);
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
      showToast({ text: errorText(fault), tone: "bad" });
      return null;
    }
  };
  if (held === undefined) return start();
  hold(held(chosen.count), start);
  return null;
}

/** Does it a while later, or when the page is left, unless it is taken back. */
export function hold(text: string, action: () => Promise<unknown>): void {
  const forget = () => {
    clearTimeout(timer);
    removeEventListener("pagehide", now);
  };
  const now = () => {
    forget();
    void action();
  };
  const timer = setTimeout(now, HELD_MS);
  addEventListener("pagehide", now);
  const undo = () => {
    forget();
    showToast({ text: gettext("Cancelled: no changes were made."), tone: "quiet" });
  };
  showToast({ text, tone: "warn", undo });
}

function fields(target: JobDialogOptions["target"], paced: boolean): TemplateResult {
  const label = target === "optional" ? gettext("Target queue (empty: the origin of each message)") : gettext("Target queue");
  return html`${target === "none" ? nothing : html`<mom-queue-name name="target" ?optional=${target === "optional"} label=${label}></mom-queue-name>`}
    ${paced
      ? html`<div class="fields">
          <label>${gettext("Message limit")}<input name="limit" type="number" min="1" max="1000000" placeholder=${gettext("all")} /></label>
          <label>${gettext("Messages per second")}<input name="rate" type="number" min="1" max="1000000" placeholder=${gettext("unlimited")} /></label>
          <label>${gettext("Stop when this percentage fails")}<input name="ratio" type="number" min="1" max="100" value="20" /></label>
        </div>`
      : nothing}`;
}

/** The jobRequest with what the dialog was told. */
function completed(jobRequest: JobRequest, given: FormData): JobRequest {
  const text = (name: string) => String(given.get(name) ?? "").trim();
  const [limit, rate, ratio] = ["limit", "rate", "ratio"].map((name) => Number(text(name)));
  return {
    ...jobRequest,
    ...(text("target") && { target: text("target") }),
    ...(limit && { limit }),
    ...(rate && { rate_per_s: rate }),
    ...(ratio && { max_error_ratio: ratio / 100 }),
  };
}

/** What a plan says: how many, how old, where from and why, some of them, and what may go wrong. */
function previewText(drawn: Plan): TemplateResult {
  const times = drawn.oldest && drawn.newest;
  return html`<div class="foreseen">
    <p><strong>${ngettext("{count} message", "{count} messages", drawn.count)}</strong>${drawn.matches > drawn.count
      ? html` ${gettext("of {matches} matching", { matches: count(drawn.matches) })}`
      : nothing}${times
      ? html` · ${gettext("oldest")} <time datetime=${drawn.oldest!} title=${fullTime(drawn.oldest!)}>${ago(drawn.oldest!)}</time> ·
          ${gettext("newest")} <time datetime=${drawn.newest!} title=${fullTime(drawn.newest!)}>${ago(drawn.newest!)}</time>`
      : nothing}</p>
    ${shares(gettext("From"), drawn.by_origin)} ${shares(gettext("Reason"), drawn.by_reason)}
    ${drawn.warnings.map((warning) => html`<p class="hint" data-tone="warn">▲ ${warning}</p>`)}
    <details>
      <summary>${ngettext("{count} sample", "{count} samples", drawn.sample.length)}</summary>
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
      ? ` · ${gettext("others")} ${count(others)}`
      : ""}</p>`;
}
