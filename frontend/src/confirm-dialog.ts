/** Asks before an act: what it is, what it does, what it would do now, and why it is done. */

import { html, nothing, render, type TemplateResult } from "lit";
import { gettext } from "./gettext.ts";

export interface Question {
  /** Verb, object and count: "Purge orders.new, 418 messages". */
  title: string;
  /** What it does, in one sentence. */
  effect: string;
  /** The word on the button: "Purge". */
  act: string;
  danger?: boolean;
  /** What it would do now, with these fields; asked again when one of them changes. A rejection forbids the act. */
  dryRun?: (fields: FormData) => Promise<string | TemplateResult>;
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
export function confirmAction(question: Question): Promise<Answer | null> {
  const origin = document.activeElement as HTMLElement | null;
  const dialog = document.createElement("dialog");
  dialog.setAttribute("aria-labelledby", "question");
  document.body.append(dialog);
  const inProduction = document.querySelector<HTMLElement>("#environment")?.dataset.environment?.toLowerCase() === "production";
  let previewText: string | TemplateResult | typeof nothing = question.dryRun ? gettext("Checking the effect…") : nothing;
  let allowed = question.dryRun === undefined;
  /** What is still to be typed; empty once it was. */
  let wanted = inProduction ? (question.typed ?? "") : "";
  const compare = (event: InputEvent) => {
    wanted = (event.target as HTMLInputElement).value.trim() === question.typed ? "" : question.typed!;
    draw();
  };

  const draw = () =>
    render(
      html`<form method="dialog" class="question" @change=${(event: Event) => preview(event.target as Element)}>
        <h2 id="question">${question.title}</h2>
        <p>${question.effect}</p>
        ${previewText === nothing ? nothing : html`<p class="notice" data-tone="quiet" role="status">${previewText}</p>`}
        ${question.fields ?? nothing}
        <label>${gettext("Reason, kept in the audit log")}<input name="reason" maxlength="500" autocomplete="off" /></label>
        ${question.typed && inProduction
          ? html`<label>${gettext("This is a production environment: type {name}", { name: question.typed })}
              <input name="typed" required autocomplete="off" autocapitalize="none" spellcheck="false" @input=${compare}
            /></label>`
          : nothing}
        <div class="tools">
          <button value="act" class=${question.danger ? "danger" : "primary"} ?disabled=${!allowed || wanted !== ""}>${question.act}</button>
          <button value="" formnovalidate>${gettext("Cancel")}</button>
        </div>
      </form>`,
      dialog,
    );
  let asked = 0;
  const preview = (changed?: Element) => {
    const { dryRun } = question;
    if (dryRun === undefined || changed?.matches("[name=reason], [name=typed]")) return;
    const number = ++asked;
    allowed = false;
    draw();
    void dryRun(new FormData(dialog.querySelector("form")!))
      .then((answer): [typeof answer, boolean] => [answer, true])
      .catch((fault: unknown): [string, boolean] => [fault instanceof Error ? fault.message : String(fault), false])
      .then((answer) => {
        if (number !== asked) return;
        [previewText, allowed] = answer;
        draw();
      });
  };
  draw();
  dialog.showModal();
  preview();

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
