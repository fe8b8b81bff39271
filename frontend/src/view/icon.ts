/** Icons of the console's sprite, as `{% icon %}` draws them in templates. */

import { html, type TemplateResult } from "lit";

/** An icon; what has it needs a label, or a text next to it. */
export function iconView(name: string): TemplateResult {
  return html`<svg class="icon" aria-hidden="true"><use href=${iconAddress(name)}></use></svg>`;
}

/** The address of an icon. */
export function iconAddress(name: string): string {
  return `${document.body.dataset.icons}#${name}`;
}
