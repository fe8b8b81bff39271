/** Asks before an act: what it is, what it does, what it would do now, and why it is done. */

import { html, nothing, render, type TemplateResult } from "lit";
import { say } from "./say.ts";

export interface Question {
  /** Verb, object and count: "Purge orders.new, 418 messages". */
  title: string;
  /** What it does, in one sentence. */
  effect: string;
  /** The word on the button: "Purge". */
  act: string;
  danger?: boolean;
  /** What it would do now, read while the dialog is open. A rejection is shown and forbids the act. */
  dryRun?: () => Promise<string | TemplateResult>;
  /** More fields; their values come back in `fields`. */
  fields?: TemplateResult;
  /** What has to be typed where the environment is production, as a rule the name of the object. */
  typed?: string;
}

export interface Answer {
  reason: string;
  fields: FormData;
}

/** Resolves to null when nothing is to be done. The focus goes back to where it was. */
export function ask(question: Question): Promise<Answer | null> {
  const origin = document.activeElement as HTMLElement | null;
  const dialog = document.createElement("dialog");
  dialog.setAttribute("aria-labelledby", "question");
  document.body.append(dialog);
  const inProduction = document.querySelector<HTMLElement>("#environment")?.dataset.environment?.toLowerCase() === "production";
  let foreseen: string | TemplateResult | typeof nothing = question.dryRun ? say("Looking what it would do…") : nothing;
  let allowed = question.dryRun === undefined;

  const draw = () =>
    render(
      html`<form method="dialog" class="question">
        <h2 id="question">${question.title}</h2>
        <p>${question.effect}</p>
        ${foreseen === nothing ? nothing : html`<p class="notice" data-tone="quiet" role="status">${foreseen}</p>`}
        ${question.fields ?? nothing}
        <label>${say("Reason, kept in the audit log")}<input name="reason" maxlength="500" autocomplete="off" /></label>
        ${question.typed && inProduction
          ? html`<label>${say("This is production: type {name}", { name: question.typed })}
              <input name="typed" required pattern=${literally(question.typed)} autocomplete="off" spellcheck="false"
            /></label>`
          : nothing}
        <div class="tools">
          <button value="act" class=${question.danger ? "danger" : "primary"} ?disabled=${!allowed}>${question.act}</button>
          <button value="" formnovalidate>${say("Cancel")}</button>
        </div>
      </form>`,
      dialog,
    );
  draw();
  dialog.showModal();
  question
    .dryRun?.()
    .then((answer) => {
      foreseen = answer;
      allowed = true;
    })
    .catch((fault: unknown) => (foreseen = fault instanceof Error ? fault.message : String(fault)))
    .finally(draw);

  return new Promise((resolve) => {
    dialog.addEventListener("close", () => {
      const fields = new FormData(dialog.querySelector("form")!);
      const answer = { reason: String(fields.get("reason") ?? ""), fields };
      dialog.remove();
      origin?.focus();
      resolve(dialog.returnValue === "act" ? answer : null);
    });
  });
}

function literally(text: string): string {
  return text.replace(/[\\^$.*+?()[\]{}|/-]/g, "\\$&");
}
