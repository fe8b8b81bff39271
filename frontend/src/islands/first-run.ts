import { html, type TemplateResult } from "lit";
import type { Place } from "../place.ts";
import { publishSnippets, type Server } from "../view/snippets.ts";
import { snippetBlock } from "./snippet-block.ts";

const FIRST_QUEUE = "/queue/hello";

/** What an empty broker shows: what this is, one thing to do, and the same from a terminal. */
export function firstRun(place: Place, server: Server): TemplateResult {
  return html`<section class="first-run">
    <h2>No destinations yet</h2>
    <p>
      A destination is where programs send messages and receive them. A <strong>queue</strong> gives each message to
      one consumer; a <strong>topic</strong> gives every subscription its copy. They come into being when the first
      message is sent.
    </p>
    <p>
      <button type="button" class="primary" @click=${() => place.go({ show: FIRST_QUEUE, tab: "publish" })}>
        Publish a first message
      </button>
    </p>
    <p class="quiet">Or from a program; the row appears here by itself:</p>
    ${publishSnippets(FIRST_QUEUE, server).map(snippetBlock)}
  </section>`;
}
