import { html, nothing } from "lit";
import { watchJob } from "../jobs/watch-job.ts";
import { signOfJob, isOpen, left, titleOf } from "../jobs/labels.ts";
import { API } from "../live/requests.ts";
import { cancel, faultOf, undo, type Job } from "../messages/requests.ts";
import { pageOfJob } from "../pages.ts";
import { gettext, ngettext } from "../gettext.ts";
import { showToast } from "../toasts.ts";
import { count } from "../view/format.ts";
import { signView } from "../view/sign.ts";
import { Island } from "./island.ts";

/** How long the result is shown. */
const SHOWN_MS = 12_000;

/** A job that was just begun, at the edge of the page: how far it is, Cancel, then what came of it, with Undo. */
export class JobToast extends Island {
  #job: Job | undefined;
  #stop: (() => void) | undefined;

  static show(job: Job): void {
    const toast = new JobToast();
    toast.#job = job;
    document.querySelector("#toasts")!.append(toast);
  }

  override connectedCallback(): void {
    super.connectedCallback();
    this.className = "notice toast job-toast";
    this.#stop = watchJob(
      this.#job!.id,
      (job) => this.#take(job),
      () => this.requestUpdate(),
    );
  }

  override disconnectedCallback(): void {
    super.disconnectedCallback();
    this.#stop?.();
  }

  #take(job: Job): void {
    this.#job = job;
    this.requestUpdate();
    if (isOpen(job)) return;
    setTimeout(() => this.remove(), SHOWN_MS);
    document.dispatchEvent(new CustomEvent("mom:job-ended", { detail: job }));
  }

  protected override render() {
    const job = this.#job!;
    const sign = signOfJob(job);
    this.dataset.tone = sign.tone;
    const open = isOpen(job);
    return html`<span><strong>${titleOf(job.op, job.total)}</strong>
        ${signView(sign)}</span>
      ${open ? html`<progress max=${job.total || 1} .value=${job.processed} aria-label=${gettext("Progress")}></progress>` : nothing}
      <span class="num" aria-live="off">${open ? this.#progress(job) : outcomeOf(job)}</span>
      <a href=${pageOfJob(job.id)}>${gettext("Open job")}</a>
      ${open ? html`<button type="button" @click=${() => this.#do(cancel)}>${gettext("Cancel")}</button>` : nothing}
      ${!open && job.can_undo ? html`<button type="button" @click=${() => this.#undo()}>${gettext("Undo")}</button>` : nothing}
      ${
        job.op === "export" && job.state === "done"
          ? html`<a href="${API}jobs/${job.id}/export" download="${job.id}.ndjson">${gettext("Download")}</a>`
          : nothing
      }
      <button type="button" class="close" aria-label=${gettext("Close")} @click=${() => this.remove()}>✕</button>`;
  }

  #progress(job: Job): string {
    const rest = left(job);
    const so = gettext("{processed} of {total}", { processed: count(job.processed), total: count(job.total) });
    return rest ? gettext("{so_far}, about {rest} remaining", { so_far: so, rest }) : so;
  }

  async #undo(): Promise<void> {
    await this.#do(async (id) => {
      JobToast.show(await undo(id));
      this.remove();
    });
  }

  async #do(request: (id: string) => Promise<unknown>): Promise<void> {
    try {
      await request(this.#job!.id);
    } catch (error) {
      showToast({ text: faultOf(error, gettext("The broker cannot be reached.")), tone: "bad" });
    }
  }
}

/** A summary of the results. */
export function outcomeOf(job: Job): string {
  const parts = [ngettext("{count} done", "{count} done", job.done)];
  if (job.refused) parts.push(ngettext("{count} refused", "{count} refused", job.refused));
  if (job.gone) parts.push(ngettext("{count} no longer in the queue", "{count} no longer in the queue", job.gone));
  if (job.unsettled) parts.push(ngettext("{count} unsettled", "{count} unsettled", job.unsettled));
  return parts.join(" · ");
}

customElements.define("mom-job-toast", JobToast);
