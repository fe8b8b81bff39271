/** The dialog that appears when the session has ended, since the page is no longer updated. */

import { html, render } from "lit";
import { gettext } from "./gettext.ts";

export function showSignIn(): void {
  if (document.querySelector("#signed-out") !== null) return;
  const dialog = document.createElement("dialog");
  dialog.id = "signed-out";
  dialog.setAttribute("aria-labelledby", "signed-out-title");
  render(
    html`<form method="dialog" class="question">
      <h2 id="signed-out-title">${gettext("You are signed out")}</h2>
      <p>${gettext("Your session has ended and this page is no longer updated. Sign in to continue.")}</p>
      <div class="tools">
        <a class="button primary" href=${location.href} data-whole autofocus>${gettext("Sign in")}</a>
        <button value="">${gettext("Stay on this page")}</button>
      </div>
    </form>`,
    dialog,
  );
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}
