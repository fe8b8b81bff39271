import { html, nothing, type TemplateResult } from "lit";
import { keep } from "../cookies.ts";
import { Follow } from "../live/source.ts";
import { gettext, ngettext } from "../gettext.ts";
import { nodeStatus } from "../services.ts";
import { zone, zoneName } from "../view/zone.ts";
import { Island } from "./island.ts";

/** Which node this is, the zone of all times, and the jobs that run, in the footer. */
export class NodeLine extends Island {
  static override properties = { jobs: {} };
  /** The address of the page of jobs, if there is one. */
  declare jobs: string;

  constructor() {
    super();
    new Follow(this, () => [nodeStatus]);
  }

  protected override render() {
    const { node } = nodeStatus;
    return html`${node ? html`<span class="extra">${gettext("node")} ${node.name}</span>` : nothing}
      <button type="button" class="link" popovertarget="zones" title=${gettext("Time zone: {zone}", { zone: zone() })}>${zoneName()} ▾</button>
      ${this.#zones()}
      ${node?.jobs && this.jobs ? html`<a href=${this.jobs}>${ngettext("{count} running job", "{count} running jobs", node.jobs)} ▸</a>` : nothing}`;
  }

  #zones(): TemplateResult {
    const chosen = zone();
    return html`<div id="zones" class="dropdown" popover>
      <label>${gettext("Time zone")}
        <select @change=${(event: Event) => choose((event.target as HTMLSelectElement).value)}>
          <option value="">${gettext("time zone of this browser")}</option>
          ${["UTC", ...Intl.supportedValuesOf("timeZone")].map((name) => html`<option ?selected=${name === chosen} value=${name}>${name}</option>`)}
        </select>
      </label>
    </div>`;
  }
}

/** Reload the page, since all times change. */
function choose(name: string): void {
  keep("mom_zone", name);
  location.reload();
}

customElements.define("mom-node-line", NodeLine);
