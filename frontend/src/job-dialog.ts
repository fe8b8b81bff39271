/** Jobs on many messages: a dialog with a dry run, then the job, then a toast with progress and Undo. */

import { html, nothing, type TemplateResult } from "lit";
import { confirmAction } from "./confirm-dialog.ts";
import { JobToast } from "./islands/job-toast.ts";
import { runDelayed } from "./delayed-action.ts";
import "./islands/queue-name.ts";
import { errorText } from "./live/requests.ts";
import { begin, plan, type Job, type Plan, type JobRequest } from "./messages/requests.ts";
import { MAX_JOB_MESSAGES, MAX_JOB_RATE } from "./generated/messages.ts";
import { gettext, ngettext } from "./gettext.ts";
import { showToast } from "./toasts.ts";
import { bodyOf, preview } from "./view/body.ts";
import { ago, count, fullTime } from "./view/format.ts";
import { iconView } from "./view/icon.ts";

export interface JobDialogOptions {
  /** The body of `POST /jobs`; fields of the dialog are added. */
  jobRequest: JobRequest;
  /** The title, and the label of the button, for a plan if there is one yet. */
  title: (planned?: Plan) => string;
  effect: string;
  button: (planned?: Plan) => string;
  danger?: boolean;
  /** The text to type in production. */
  typed?: string;
  /** Whether the dialog asks for a target queue. */
  target?: "none" | "optional" | "needed";
  /** Whether the dialog asks for a limit, a rate and the percentage of failures. */
  paced?: boolean;
  /** The text of the toast while the job can be cancelled; it starts ten seconds later. */
  held?: (count: number) => string;
}

const NAMED = 4;

/** Open the dialog, and start the job. Resolves to null when it was not started (yet); errors are shown as a toast. */
export async function openJobDialog({ jobRequest, paced, target = "none", held, title, button, ...question }: JobDialogOptions): Promise<Job | null> {
  let drawn: Plan | undefined;
  const answer = await confirmAction({
    ...question,
    title: () => title(drawn),
    button: () => button(drawn),
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
  runDelayed(held(chosen.count), { isSingle: true }, start);
  return null;
}

function fields(target: JobDialogOptions["target"], paced: boolean): TemplateResult {
  const label = target === "optional" ? gettext("Target queue (empty: the origin of each message)") : gettext("Target queue");
  return html`${target === "none" ? nothing : html`<mom-queue-name name="target" ?optional=${target === "optional"} label=${label}></mom-queue-name>`}
    ${
      paced
        ? html`<div class="fields">
          <label>${gettext("Message limit")}<input name="limit" type="number" min="1" max=${MAX_JOB_MESSAGES} placeholder=${gettext("all")} /></label>
          <label>${gettext("Messages per second")}<input name="rate" type="number" min="1" max=${MAX_JOB_RATE} placeholder=${gettext("unlimited")} /></label>
          <label>${gettext("Stop when this percentage fails")}<input name="ratio" type="number" min="1" max="100" value="20" /></label>
        </div>`
        : nothing
    }`;
}

/** The request with the fields of the dialog. */
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

/** The plan of a job: count, ages, origins, reasons, warnings and samples. */
function previewText(drawn: Plan): TemplateResult {
  const times = drawn.oldest && drawn.newest;
  return html`<div class="job-preview">
    <p><strong>${ngettext("{count} message", "{count} messages", drawn.count)}</strong>${
      drawn.matches > drawn.count ? html` ${gettext("of {matches} matching", { matches: count(drawn.matches) })}` : nothing
    }${
      times
        ? html` · ${gettext("oldest")} <time datetime=${drawn.oldest!} title=${fullTime(drawn.oldest!)}>${ago(drawn.oldest!)}</time> ·
          ${gettext("newest")} <time datetime=${drawn.newest!} title=${fullTime(drawn.newest!)}>${ago(drawn.newest!)}</time>`
        : nothing
    }</p>
    ${shares(gettext("From"), drawn.by_origin)} ${shares(gettext("Reason"), drawn.by_reason)}
    ${drawn.warnings.map((warning) => html`<p class="hint" data-tone="warn">${iconView("triangle-alert")} ${warning}</p>`)}
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
  return html`<p><span class="quiet">${label}:</span> ${entries
    .slice(0, NAMED)
    .map(([name, number]) => `${name} ${count(number)}`)
    .join(" · ")}${others ? ` · ${gettext("others")} ${count(others)}` : ""}</p>`;
}
