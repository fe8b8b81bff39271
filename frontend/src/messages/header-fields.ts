/** Fields for the headers of a message. */

import { html, type TemplateResult } from "lit";
import { gettext } from "../gettext.ts";

export interface Header {
  key: string;
  value: string;
}

/** A row for each header; `change` takes the headers after each input, and whether one was added. */
export function headerFields(headers: Header[], change: (headers: Header[], added?: boolean) => void): TemplateResult {
  const typed = (index: number, part: keyof Header) => (event: InputEvent) => {
    const { value } = event.target as HTMLInputElement;
    change(headers.map((header, at) => (at === index ? { ...header, [part]: value } : header)));
  };
  const remove = (index: number) => change(headers.filter((_, at) => at !== index));
  return html`<fieldset>
    <legend>${gettext("Headers")}</legend>
    ${headers.map(
      ({ key, value }, index) => html`<div class="header-row">
        <input aria-label=${gettext("Header name")} placeholder=${gettext("name")} autocomplete="off" spellcheck="false" .value=${key} @input=${typed(index, "key")} />
        <input aria-label=${gettext("Header value")} placeholder=${gettext("value")} autocomplete="off" .value=${value} @input=${typed(index, "value")} />
        <button type="button" class="close" aria-label=${gettext("Remove this header")} @click=${() => remove(index)}>✕</button>
      </div>`,
    )}
    <button type="button" class="link" @click=${() => change([...headers, { key: "", value: "" }], true)}>${gettext("+ Add header")}</button>
  </fieldset>`;
}
