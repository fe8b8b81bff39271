/** A dialog before an action: title, effect, preview and reason. */

import { html, nothing, render, type TemplateResult } from "lit";
import { gettext } from "./gettext.ts";

export interface Question {
  /** Verb, object and count: "Purge orders.new, 418 messages". */
  title: string | (() => string);
  /** The effect, in one sentence. */
  effect: string;
  /** The label of the button: "Purge". Title and label may follow from the preview. */
  button: string | (() => string);
  danger?: boolean;
  /** The preview for these fields; requested again when one changes. A rejection disables the button. */
  dryRun?: (fields: FormData) => Promise<string | TemplateResult>;
  /** More fields; their values come back in `fields`. */
  fields?: TemplateResult;
  /** The text to type in a production environment, usually the name of the resource. */
  typed?: string;
}

export interface Answer {
  reason: string;
  fields: FormData;
}

const textOf = (text: string | (() => string)) => (typeof text === "string" ? text : text());

/** Open the dialog. Resolves to null when it is cancelled. The focus returns to where it was. */
export function confirmAction(question: Question): Promise<Answer | null> {
  const origin = document.activeElement as HTMLElement | null;
  const dialog = document.createElement("dialog");
  dialog.setAttribute("aria-labelledby", "question");
  document.body.append(dialog);
  const inProduction = document.querySelector<HTMLElement>("#environment")?.dataset.environment?.toLowerCase() === "production";
  let previewText: string | TemplateResult | typeof nothing = question.dryRun ? gettext("Checking the effect…") : nothing;
  let allowed = question.dryRun === undefined;
  /** The text that still has to be typed; empty when it was. */
  let missingText = inProduction ? (question.typed ?? "") : "";
  const compare = (event: InputEvent) => {
    missingText = (event.target as HTMLInputElement).value.trim() === question.typed ? "" : question.typed!;
    draw();
  };

  const draw = () =>
    render(
      html`<form method="dialog" class="question" @change=${(event: Event) => preview(event.target as Element)}>
        <h2 id="question">${textOf(question.title)}</h2>
        <p>${question.effect}</p>
        ${previewText === nothing ? nothing : html`<p class="notice" data-tone="quiet" role="status">${previewText}</p>`}
        ${question.fields ?? nothing}
        <label>${gettext("Reason, kept in the audit log")}<input name="reason" maxlength="500" autocomplete="off" /></label>
        ${
          question.typed && inProduction
            ? html`<label>${gettext("This is a production environment: type {name}", { name: question.typed })}
              <input name="typed" required autocomplete="off" autocapitalize="none" spellcheck="false" @input=${compare}
            /></label>`
            : nothing
        }
        <div class="tools">
          <button value="act" class=${question.danger ? "danger" : "primary"} ?disabled=${!allowed || missingText !== ""}>${textOf(question.button)}</button>
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
