import { nothing } from "lit";

/** Why the user may change nothing, as a monitor; undefined for all others. The body of the page has it. */
export function refusal(): string | undefined {
  return document.body.dataset.refusal;
}

/** The title of a button that changes something, or of one with a hint of its own. */
export function hintOf(own?: string): string | typeof nothing {
  return refusal() ?? own ?? nothing;
}
