import { html, nothing, type TemplateResult } from "lit";

/** A column of a table; `sort` is the member by which its button orders the rows. */
export interface Heading {
  label: string;
  sort?: string | undefined;
  numeric?: boolean | undefined;
  hint?: string | undefined;
  /** The class of its cells. */
  name?: string;
}

/** The heading of a column; `current` is the order now, `-member` when it descends. Numbers descend first. */
export function heading({ label, sort, numeric, hint, name = "" }: Heading, current: string, order: (sort: string) => void): TemplateResult {
  const style = `${name} ${numeric ? "num" : ""}`.trim() || nothing;
  if (sort === undefined) return html`<th scope="col" class=${style} title=${hint ?? nothing}>${label}</th>`;
  const direction = current === sort ? "ascending" : current === `-${sort}` ? "descending" : undefined;
  const next = numeric ? (direction === "descending" ? sort : `-${sort}`) : direction === "ascending" ? `-${sort}` : sort;
  const mark = direction ? html`<span class="mark" aria-hidden="true">${direction === "ascending" ? "↑" : "↓"}</span>` : nothing;
  return html`<th scope="col" class=${style} title=${hint ?? nothing} aria-sort=${direction ?? nothing}>
    <button type="button" @click=${() => order(next)}>${numeric ? [mark, label] : [label, mark]}</button>
  </th>`;
}
