import { html, nothing, type TemplateResult } from "lit";
import { gettext } from "../gettext.ts";

const OPEN_LEVELS = 2;
const SHOWN_CHILDREN = 200;

/** A JSON value as nested, foldable lists: the platform's <details>, so keys and screen readers just work. */
export function jsonTree(value: unknown, key?: string | number, level = 0): TemplateResult {
  const label = key === undefined ? nothing : html`<span class="json-key">${key}</span>`;
  if (!isContainer(value)) return html`<div class="json-leaf">${label}${leaf(value)}</div>`;
  const entries = Array.isArray(value) ? [...value.entries()] : Object.entries(value);
  const brackets = Array.isArray(value) ? `[${entries.length}]` : `{${entries.length}}`;
  if (entries.length === 0) {
    return html`<div class="json-leaf">${label}<span class="json-size">${brackets}</span></div>`;
  }
  return html`<details class="json-node" ?open=${level < OPEN_LEVELS}>
    <summary>${label}<span class="json-size">${brackets}</span></summary>
    ${entries.slice(0, SHOWN_CHILDREN).map(([name, child]) => jsonTree(child, name, level + 1))}
    ${
      entries.length > SHOWN_CHILDREN
        ? html`<div class="json-leaf json-size">${gettext("… {count} more: see Raw", { count: entries.length - SHOWN_CHILDREN })}</div>`
        : nothing
    }
  </details>`;
}

function leaf(value: unknown): TemplateResult {
  const kind = value === null ? "null" : typeof value === "object" ? "number" : typeof value;
  return html`<span class="json-${kind}">${JSON.stringify(value)}</span>`;
}

/** A number kept as text (see parseLossless) is an object to JavaScript, but a leaf to the reader. */
function isContainer(value: unknown): value is unknown[] | Record<string, unknown> {
  const { isRawJSON } = JSON as typeof JSON & { isRawJSON?: (value: unknown) => boolean };
  return typeof value === "object" && value !== null && !isRawJSON?.(value);
}
