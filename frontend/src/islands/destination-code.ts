import { html } from "lit";
import { server } from "../services.ts";
import { publishSnippets, receiveSnippets } from "../view/snippets.ts";
import { Island } from "./island.ts";
import { snippetBlock } from "./snippet-block.ts";

/** Code to use one destination with. */
export class DestinationCode extends Island {
  static override properties = { destination: {} };

  declare destination: string;

  protected override render() {
    return html`<h3>Publish</h3>
      ${publishSnippets(this.destination, server).map(snippetBlock)}
      <h3>Receive</h3>
      ${receiveSnippets(this.destination, server).map(snippetBlock)}`;
  }
}

customElements.define("mom-destination-code", DestinationCode);
