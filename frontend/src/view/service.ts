/** Services of the REST API, their presentation and what can be done to them. */

import { html, nothing, type TemplateResult } from "lit";
import { confirmAction } from "../confirm-dialog.ts";
import { gettext, ngettext } from "../gettext.ts";
import { errorText, request } from "../live/requests.ts";
import { showToast } from "../toasts.ts";
import { signIn, signView } from "./sign.ts";
import type { OriginState } from "../generated/tables.ts";
import { ORIGIN_STATE } from "../generated/signs/origin-state.ts";
import { SERVICE_ACTIVITY } from "../generated/signs/service-activity.ts";
import { hintOf } from "./refusal.ts";

/** The remote broker of a service at a callback broker. */
export interface ServiceOrigin {
  url: string;
  state: OriginState;
  error: string | null;
}

export interface Service {
  id: string;
  name: string;
  user: string;
  machine: string;
  type: string;
  events: string[];
  active: boolean;
  callbacks: boolean;
  transport: string;
  connection: string | null;
  since: string;
  lease_until: string | null;
  pending: number;
  origin: ServiceOrigin | null;
}

/** Whether a service is active: icon, word and colour. */
export function activityOf({ active }: Service): TemplateResult {
  return signView(SERVICE_ACTIVITY[active ? "active" : "inactive"]);
}

/** The state of the connection to an origin: icon, word and colour. */
export function linkOf({ state, error }: ServiceOrigin): TemplateResult {
  return html`${signView(signIn(ORIGIN_STATE, state))}
  ${error ? html`<p class="quiet">${error}</p>` : nothing}`;
}

/** The buttons for a service: for its user and for administrators. `done` is called after each action. */
export function serviceActions(service: Service, administrator: boolean, done: () => void): TemplateResult {
  const own = service.user === document.body.dataset.user;
  const hint = hintOf(own || administrator ? undefined : gettext("requires the right administer: the service belongs to {user}", { user: service.user }));
  const disabled = hint !== nothing;
  const { name } = service;
  return html`${
    service.active
      ? html`<button type="button" ?disabled=${disabled} title=${hint} aria-label=${gettext("Deactivate {name}", { name })} @click=${() => deactivate(service, done)}>${gettext("Deactivate…")}</button>`
      : html`<button type="button" ?disabled=${disabled} title=${hint} aria-label=${gettext("Activate {name}", { name })} @click=${() => activate(service, done)}>${gettext("Activate…")}</button>`
  }
    <button type="button" ?disabled=${disabled} title=${hint} aria-label=${gettext("Deregister {name}", { name })} @click=${() => deregister(service, done)}>${gettext("Deregister…")}</button>`;
}

async function deactivate(service: Service, done: () => void): Promise<void> {
  const { name, pending } = service;
  const answer = await confirmAction({
    title: gettext("Deactivate service {name}", { name }),
    effect: [
      gettext("The service gets no copies of messages to profiles until it is activated. It stays registered, and receives from its queue as before."),
      waiting(pending),
    ].join(" "),
    button: gettext("Deactivate"),
  });
  if (answer !== null) await setActive(service, false, answer.reason, done);
}

async function activate(service: Service, done: () => void): Promise<void> {
  const { name } = service;
  const answer = await confirmAction({
    title: gettext("Activate service {name}", { name }),
    effect: gettext("The service gets copies of messages to profiles again, also of those that wait for further services now."),
    button: gettext("Activate"),
  });
  if (answer !== null) await setActive(service, true, answer.reason, done);
}

async function setActive(service: Service, active: boolean, reason: string, done: () => void): Promise<void> {
  const { name } = service;
  try {
    await request("PATCH", pathOf(service), { active }, reason);
    showToast({
      text: active ? gettext("Service {name} is active.", { name }) : gettext("Service {name} is inactive.", { name }),
      tone: "good",
      undo: () => void setActive(service, !active, reason, done),
    });
  } catch (fault) {
    showToast({ text: errorText(fault), tone: "bad" });
  }
  done();
}

async function deregister(service: Service, done: () => void): Promise<void> {
  const { name, pending } = service;
  const answer = await confirmAction({
    title: gettext("Deregister service {name}", { name }),
    effect: [
      service.connection === null
        ? gettext("The registration ends. Its program is refused when it renews its lease, and can register again.")
        : gettext("The registration ends. The connection of its program stays open; the program can register again when it reconnects."),
      service.origin === null ? waiting(pending) : gettext("Its messages stay at the origin."),
    ].join(" "),
    button: gettext("Deregister"),
    danger: true,
    typed: name,
  });
  if (answer === null) return;
  try {
    await request("DELETE", pathOf(service), undefined, answer.reason);
    showToast({ text: gettext("Service {name} is deregistered.", { name }), tone: "good" });
  } catch (fault) {
    showToast({ text: errorText(fault), tone: "bad" });
  }
  done();
}

function waiting(pending: number): string {
  return ngettext("{count} message stays in its queue.", "{count} messages stay in its queue.", pending);
}

function pathOf({ id }: Service): string {
  return `services/${encodeURIComponent(id)}`;
}
