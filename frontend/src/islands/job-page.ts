import { html, nothing, type PropertyValues, type TemplateResult } from "lit";
import { watchJob } from "../jobs/watch-job.ts";
import { problemsOf, type Problem } from "../jobs/results.ts";
import { signOfJob, isOpen, left, placeOf, titleOf } from "../jobs/labels.ts";
import { confirmAction } from "../confirm-dialog.ts";
import { API, errorText } from "../live/requests.ts";
import { RequestRefused } from "../live/rest.ts";
import { cancel, undo, type Job } from "../messages/requests.ts";
import { pageOf, pageOfJob } from "../pages.ts";
import { gettext, ngettext } from "../gettext.ts";
import "../style/messages.css";
import { showToast } from "../toasts.ts";
import { count, fullTime } from "../view/format.ts";
import { Island } from "./island.ts";
import { JobToast } from "./job-toast.ts";
import { iconView } from "../view/icon.ts";
import { hintOf, refusal } from "../view/refusal.ts";

/** One job: how far it is while it runs, what became of each message, and the way back. */
export class JobPage extends Island {
  static override properties = { job: {} };

  /** Its id. */
  declare job: string;

  #known: Job | undefined;
  #problems: Problem[] | undefined;
  #fault = "";
  #missing = false;
  #stop: (() => void) | undefined;

  protected override willUpdate(changes: PropertyValues<this>): void {
    if (!changes.has("job")) return;
    this.#known = this.#problems = undefined;
    this.#follow();
  }

  override disconnectedCallback(): void {
    super.disconnectedCallback();
    this.#stop?.();
  }

  #follow(): void {
    this.#stop?.();
    this.#stop = watchJob(
      this.job,
      (job) => {
        this.#known = job;
        this.#fault = "";
        if (!isOpen(job) && job.processed > job.done) void this.#readProblems(job);
        this.requestUpdate();
      },
      (fault) => {
        this.#missing = fault instanceof RequestRefused && fault.problem.status === 404;
        this.#fault = errorText(fault);
        if (this.#missing) this.#stop?.();
        this.requestUpdate();
      },
    );
  }

  async #readProblems(job: Job): Promise<void> {
    const found = await problemsOf(job.id).catch(() => undefined);
    if (job.id !== this.job) return;
    this.#problems = found;
    this.requestUpdate();
  }

  protected override render() {
    const job = this.#known;
    if (this.#missing) {
      return html`<div class="empty">
        <p>${gettext("Job {id} does not exist. The last 200 finished jobs are kept for seven days.", { id: this.job })}</p>
        <a class="button" href=${pageOfJob()}>${gettext("All jobs")}</a>
      </div>`;
    }
    return html`
      ${this.#fault ? html`<p class="notice" data-tone="bad" role="alert"><strong>${gettext("The job could not be loaded.")}</strong> ${this.#fault}</p>` : nothing}
      ${job ? this.#shown(job) : this.#fault ? nothing : html`<div class="skeleton" role="status"><span class="visually-hidden">${gettext("Loading the job")}</span><div></div><div></div></div>`}
    `;
  }

  #shown(job: Job): TemplateResult {
    const { word, tone, icon } = signOfJob(job);
    return html`
      <div class="headline">
        <h2>${titleOf(job.op, job.total)} <span class="pill" data-tone=${tone}>${iconView(icon)} ${word}</span></h2>
        <div class="tools">${this.#actions(job)}</div>
      </div>
      ${job.reason ? html`<p class="notice" data-tone=${isOpen(job) ? "warn" : "bad"}>${job.reason}</p>` : nothing}
      <div class="job-progress wide" aria-live="off">
        <progress max=${job.total || 1} .value=${job.processed} aria-label=${gettext("Progress")}></progress>
        <span class="num">${count(job.processed)} / ${count(job.total)}${isOpen(job) && left(job) ? ` · ${gettext("about {rest} remaining", { rest: left(job)! })}` : ""}</span>
      </div>
      <dl class="job-counts" aria-live="off">
        ${[
          [gettext("done"), job.done],
          [gettext("refused"), job.refused],
          [gettext("no longer in the queue"), job.gone],
          [gettext("unsettled"), job.unsettled],
        ].map(([label, value]) => html`<div><dt>${label}</dt><dd class="num">${count(value as number)}</dd></div>`)}
      </dl>
      ${this.#facts(job)} ${this.#results(job)}
    `;
  }

  #actions(job: Job): TemplateResult {
    const follows = (id: string) => html`<a href=${pageOfJob(id)}>${id}</a>`;
    return html`
      ${isOpen(job) ? html`<button type="button" ?disabled=${refusal() !== undefined} title=${hintOf()} @click=${() => this.#cancel(job)}>${gettext("Cancel job…")}</button>` : nothing}
      ${job.can_undo ? html`<button type="button" ?disabled=${refusal() !== undefined} title=${hintOf()} @click=${() => this.#undo(job)}>${gettext("Undo job…")}</button>` : nothing}
      ${
        job.op === "export" && job.state === "done"
          ? html`<a class="button primary" href="${API}jobs/${job.id}/export" download="${job.id}.ndjson">${gettext("Download the export")}</a>`
          : nothing
      }
      ${job.processed > 0 ? html`<a class="button" href="${API}jobs/${job.id}/results" download="${job.id}-results.ndjson">${gettext("Download the results")}</a>` : nothing}
      ${job.undo_of ? html`<span class="quiet">${gettext("undoes")} ${follows(job.undo_of)}</span>` : nothing}
      ${job.undone_by ? html`<span class="quiet">${gettext("undone by")} ${follows(job.undone_by)}</span>` : nothing}
    `;
  }

  #facts(job: Job): TemplateResult {
    const queue = (address: string | null) =>
      address?.startsWith("/queue/") || address?.startsWith("/topic/") ? html`<a href=${pageOf(address)}>${placeOf(address)}</a>` : placeOf(address);
    const time = (value: string | null) => (value ? html`<time datetime=${value} title=${value}>${fullTime(value)}</time>` : nothing);
    const filter = job.filter === null ? "" : typeof job.filter === "string" ? job.filter : JSON.stringify(job.filter);
    const facts: [string, unknown][] = [
      [gettext("from"), queue(job.source)],
      [gettext("to"), queue(job.target)],
      [gettext("selection"), filter.length > 300 ? `${filter.slice(0, 300)}…` : filter || gettext("all")],
      [gettext("by"), job.user],
      [gettext("messages per second"), job.rate_per_s === null ? gettext("unlimited") : count(job.rate_per_s)],
      [gettext("started"), time(job.created)],
      [gettext("ended"), time(job.ended)],
    ];
    return html`<dl class="pairs">${facts.map(([name, value]) => (value ? html`<dt>${name}</dt><dd>${value}</dd>` : nothing))}</dl>`;
  }

  /** Messages that were not processed. */
  #results(job: Job): TemplateResult | typeof nothing {
    if (this.#problems === undefined || this.#problems.length === 0) return nothing;
    const bare = placeOf(job.source);
    return html`<section>
      <h3>${ngettext("{count} message that was not processed", "The first {count} messages that were not processed", this.#problems.length)}</h3>
      <table class="resources">
        <thead><tr><th scope="col">${gettext("message")}</th><th scope="col">${gettext("result")}</th><th scope="col">${gettext("reason")}</th></tr></thead>
        <tbody>
          ${this.#problems.map(
            ({ id, status, reason }) => html`<tr>
              <th scope="row">${job.source ? html`<a href=${pageOf(`/queue/${bare}`, "", { message: id })}><code>${id}</code></a>` : html`<code>${id}</code>`}</th>
              <td data-label=${gettext("result")}>${status}</td>
              <td data-label=${gettext("reason")}>${reason}</td>
            </tr>`,
          )}
        </tbody>
      </table>
    </section>`;
  }

  async #cancel(job: Job): Promise<void> {
    const answer = await confirmAction({
      title: gettext("Cancel job {id}", { id: job.id }),
      effect: gettext("The job stops after the messages in progress. Messages that are already processed are not restored."),
      button: gettext("Cancel the job"),
    });
    if (answer !== null) await this.#do(() => cancel(job.id));
  }

  async #undo(job: Job): Promise<void> {
    const answer = await confirmAction({
      title: ngettext("Move {count} message back", "Move {count} messages back", job.done),
      effect: gettext("Messages that were not consumed since then are moved back to {queue}, with their original headers.", { queue: placeOf(job.source) }),
      button: gettext("Undo"),
    });
    if (answer !== null) await this.#do(async () => JobToast.show(await undo(job.id)));
  }

  async #do(request: () => Promise<unknown>): Promise<void> {
    try {
      await request();
    } catch (fault) {
      showToast({ text: errorText(fault), tone: "bad" });
    }
    this.#follow();
  }
}

customElements.define("mom-job-page", JobPage);
