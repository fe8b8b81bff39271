import { html, nothing, type TemplateResult } from "lit";
import { repeat } from "lit/directives/repeat.js";
import { confirmAction } from "../confirm-dialog.ts";
import { gettext, ngettext } from "../gettext.ts";
import { Polling } from "../live/polling.ts";
import { errorText, read, request } from "../live/requests.ts";
import { servicesPage } from "../pages.ts";
import { showToast } from "../toasts.ts";
import { count, fullTime } from "../view/format.ts";
import { polled } from "../view/polled.ts";
import { Island } from "./island.ts";
import { hintOf, refusal } from "../view/refusal.ts";

const EVERY_MS = 2_000;
const ROWS = 500;
/** Names of services that a row shows. */
const NAMES = 10;

interface Seed {
  id: string;
  profile: string;
  sender: string;
  copies: number;
  max_copies: number;
  services: string[];
  expires_at: string | null;
}

interface Answer {
  items: Seed[];
  approx_total: number;
}

/** The messages to profiles that wait for further services: one's own, and all for administrators. */
export class SeedList extends Island {
  readonly #polling = new Polling<Answer>(this, () => read("seeds", { limit: ROWS }), EVERY_MS);

  protected override render() {
    return polled(this.#polling, ({ items, approx_total }, old) => (items.length === 0 ? none() : this.#table(items, approx_total, old)));
  }

  #table(items: Seed[], total: number, old: boolean): TemplateResult {
    return html`<table class="resources seeds" data-old=${old ? "true" : nothing}>
        <caption class="visually-hidden">${gettext("Seed messages")}</caption>
        <thead>
          <tr>
            <th scope="col">${gettext("profile")}</th>
            <th scope="col">${gettext("message")}</th>
            <th scope="col">${gettext("sender")}</th>
            <th scope="col" class="num">${gettext("copies")}</th>
            <th scope="col">${gettext("services with a copy")}</th>
            <th scope="col">${gettext("expires")}</th>
            <th scope="col"><span class="visually-hidden">${gettext("actions")}</span></th>
          </tr>
        </thead>
        <tbody>
          ${repeat(
            items,
            ({ id }) => id,
            (seed) => this.#row(seed),
          )}
        </tbody>
      </table>
      ${items.length < total ? html`<p class="quiet more">${gettext("Showing the first {shown} of {all}.", { shown: count(items.length), all: count(total) })}</p>` : nothing}`;
  }

  #row(seed: Seed): TemplateResult {
    const { id, profile, sender, copies, max_copies, services, expires_at } = seed;
    return html`<tr data-row=${id}>
      <th scope="row"><code>${profile}</code></th>
      <td data-label=${gettext("message")}><code>${id}</code></td>
      <td data-label=${gettext("sender")}>${sender}</td>
      <td data-label=${gettext("copies")} class="num">${gettext("{copies} of {most}", { copies: count(copies), most: count(max_copies) })}</td>
      <td data-label=${gettext("services with a copy")} class=${services.length === 0 ? "nothing" : ""}>${services.length === 0 ? nothing : namesOf(services)}</td>
      <td data-label=${gettext("expires")}>${expires_at === null ? gettext("never") : html`<time datetime=${expires_at}>${fullTime(expires_at)}</time>`}</td>
      <td><div class="tools"><button type="button" ?disabled=${refusal() !== undefined} title=${hintOf()} aria-label=${gettext("Remove the seed for {profile}", { profile })} @click=${() => this.#remove(seed)}>${gettext("Remove…")}</button></div></td>
    </tr>`;
  }

  async #remove({ id, profile, copies, max_copies }: Seed): Promise<void> {
    const made = ngettext("Its {count} copy stays.", "Its {count} copies stay.", copies);
    const answer = await confirmAction({
      title: gettext("Remove the seed for {profile}", { profile }),
      effect: [gettext("The message is deleted: no further service gets a copy, of up to {count} more.", { count: count(max_copies - copies) }), made].join(
        " ",
      ),
      button: gettext("Remove"),
      danger: true,
    });
    if (answer === null) return;
    try {
      await request("DELETE", `seeds/${encodeURIComponent(id)}`, undefined, answer.reason);
      showToast({ text: gettext("The seed for {profile} was removed.", { profile }), tone: "good" });
    } catch (fault) {
      showToast({ text: errorText(fault), tone: "bad" });
    }
    this.#polling.again();
  }
}

function namesOf(services: string[]): TemplateResult {
  const shown = services.slice(0, NAMES);
  return html`<div>
    ${shown.map((name, at) => html`${at > 0 ? ", " : nothing}<a href=${servicesPage({ filter: name })}>${name}</a>`)}
    ${services.length > NAMES ? gettext("and {count} more", { count: count(services.length - NAMES) }) : nothing}
  </div>`;
}

function none(): TemplateResult {
  return html`<div class="empty">
    <p>${gettext("No message to a profile waits for further services. Such a message is sent to /profile/<condition>, such as /profile/type = 'shop', and copied to each service that matches.")}</p>
  </div>`;
}

customElements.define("mom-seed-list", SeedList);
