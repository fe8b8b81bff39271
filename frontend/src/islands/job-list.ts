import { html, nothing, type TemplateResult } from "lit";
import { repeat } from "lit/directives/repeat.js";
import { signOfJob, isOpen, placeOf, titleOf } from "../jobs/labels.ts";
import { errorText } from "../live/requests.ts";
import { Follow } from "../live/source.ts";
import { jobs, type Job } from "../messages/requests.ts";
import { consolePage, pageOfJob } from "../pages.ts";
import { gettext, ngettext } from "../gettext.ts";
import { pageAddress, session } from "../services.ts";
import "../style/messages.css";
import { ago, count, fullTime } from "../view/format.ts";
import { signView } from "../view/sign.ts";
import { Island } from "./island.ts";
import { outcomeOf } from "./job-toast.ts";
import { iconView } from "../view/icon.ts";

const PAGE = 50;
const REFRESH_DELAY_MS = 500;
/** The interval of polling running jobs without a subscription. */
const POLL_MS = 5_000;

/** Jobs, the newest first: one's own, and those on queues that one may browse. The address has the page: `after`. */
export class JobList extends Island {
  #items: Job[] = [];
  #next: string | null = null;
  #total = 0;
  #read = false;
  #fault = "";
  #asked: string | undefined;
  #unhear: (() => void) | undefined;
  #poll: ReturnType<typeof setInterval> | undefined;
  #due: ReturnType<typeof setTimeout> | undefined;

  constructor() {
    super();
    new Follow(this, () => [pageAddress]);
  }

  override connectedCallback(): void {
    super.connectedCallback();
    this.#unhear = session.subscribe("/topic/$mom.job.>", (body) => this.#take((JSON.parse(body) as { data: Job }).data));
    this.#poll = setInterval(() => this.#items.some(isOpen) && void this.#ask(), POLL_MS);
  }

  override disconnectedCallback(): void {
    super.disconnectedCallback();
    this.#unhear?.();
    clearInterval(this.#poll);
    clearTimeout(this.#due);
  }

  protected override willUpdate(): void {
    const asked = pageAddress.get("after");
    if (asked === this.#asked) return;
    this.#asked = asked;
    void this.#ask();
  }

  /** Progress of a job that is shown; another one, or one that has ended, is read. */
  #take(news: Partial<Job> & Pick<Job, "id" | "state">): void {
    const known = this.#items.find(({ id }) => id === news.id);
    if (known && isOpen(news)) Object.assign(known, news);
    else this.#due ??= setTimeout(() => void this.#ask(), REFRESH_DELAY_MS);
    this.requestUpdate();
  }

  async #ask(): Promise<void> {
    clearTimeout(this.#due);
    this.#due = undefined;
    try {
      const page = await jobs(pageAddress.get("after") || null, PAGE);
      [this.#items, this.#next, this.#total] = [page.items, page.next, page.approx_total];
      this.#fault = "";
    } catch (fault) {
      this.#fault = errorText(fault);
    }
    this.#read = true;
    this.requestUpdate();
  }

  protected override render() {
    if (!this.#read)
      return html`<div class="skeleton" role="status"><span class="visually-hidden">${gettext("Loading jobs")}</span>${[1, 2, 3, 4].map(() => html`<div></div>`)}</div>`;
    return html`
      ${
        this.#fault
          ? html`<div class="notice" data-tone="bad" role="alert">
            <strong>${gettext("The jobs could not be loaded.")}</strong> ${this.#fault}
            <button type="button" @click=${() => this.#ask()}>${gettext("Try again")}</button>
          </div>`
          : nothing
      }
      ${this.#items.length > 0 ? this.#table() : this.#fault ? nothing : this.#none()}
      <p class="pager tools">
        ${pageAddress.get("after") ? html`<a href=${pageAddress.href({ after: "" })}>${gettext("◂ Newest")}</a>` : nothing}
        ${this.#next !== null ? html`<a href=${pageAddress.href({ after: this.#next })}>${gettext("Older ▸")}</a>` : nothing}
        <span class="quiet">${ngettext("{count} job", "{count} jobs", this.#total)}</span>
      </p>
    `;
  }

  #none(): TemplateResult {
    return html`<div class="empty">
      ${iconView("list-checks")}
      <p>${gettext("No jobs were started in the last seven days. To start one, select messages of a queue, then Retry, Move or Export.")}</p>
      <a class="button primary" href=${consolePage("queues/")}>${gettext("Queues")}</a>
    </div>`;
  }

  #table(): TemplateResult {
    return html`<table class="resources jobs" data-old=${this.#fault ? "true" : nothing}>
      <caption class="visually-hidden">${gettext("Jobs, newest first")}</caption>
      <thead>
        <tr>
          <th scope="col">${gettext("job")}</th>
          <th scope="col">${gettext("state")}</th>
          <th scope="col">${gettext("from, to")}</th>
          <th scope="col">${gettext("progress")}</th>
          <th scope="col">${gettext("by")}</th>
          <th scope="col">${gettext("started")}</th>
        </tr>
      </thead>
      <tbody>
        ${repeat(
          this.#items,
          ({ id }) => id,
          (job) => this.#row(job),
        )}
      </tbody>
    </table>`;
  }

  #row(job: Job): TemplateResult {
    return html`<tr>
      <th scope="row"><a href=${pageOfJob(job.id)}>${titleOf(job.op, job.total)}</a></th>
      <td data-label=${gettext("state")}>${signView(signOfJob(job))}</td>
      <td data-label=${gettext("from, to")}>${placeOf(job.source)}${job.target ? html` <span aria-hidden="true">→</span> ${placeOf(job.target)}` : nothing}</td>
      <td data-label=${gettext("progress")} aria-live="off">${
        isOpen(job)
          ? html`<span class="job-progress"><progress max=${job.total || 1} .value=${job.processed} aria-label=${gettext("Progress")}></progress><span class="num">${count(job.processed)} / ${count(job.total)}</span></span>`
          : outcomeOf(job)
      }</td>
      <td data-label=${gettext("by")}>${job.user}</td>
      <td data-label=${gettext("started")}><time datetime=${job.created} title=${fullTime(job.created)}>${ago(job.created)}</time></td>
    </tr>`;
  }
}

customElements.define("mom-job-list", JobList);
