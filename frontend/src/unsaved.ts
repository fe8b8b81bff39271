/** Input of the page that was not sent. */

/** Forms that only search have nothing to save. */
const CHANGES = "form:not([method=get], [method=dialog], [role=search])";

let edited = false;

document.addEventListener("input", ({ target }) => {
  if ((target as Element).closest(CHANGES)) edited = true;
});
document.addEventListener("mom:arrived", () => (edited = false));

/** Whether something was typed or chosen in a form since the page arrived. */
export function hasUnsavedInput(): boolean {
  return edited;
}
