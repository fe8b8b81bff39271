import { html, type TemplateResult } from "lit";
import type { Snippet } from "../view/snippets.ts";
import { copyButton } from "./copy-button.ts";

export function snippetBlock({ tool, code }: Snippet): TemplateResult {
  return html`<figure class="snippet">
    <figcaption>${tool}${copyButton(code, `Copy the ${tool} snippet`)}</figcaption>
    <pre tabindex="0" aria-label=${tool}><code>${code}</code></pre>
  </figure>`;
}
