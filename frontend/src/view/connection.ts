/** Connections of the REST API, and their presentation. Rates are frames per second. */

import { html, nothing, type TemplateResult } from "lit";
import type { ClientEventName } from "../generated/tables.ts";
import { gettext } from "../gettext.ts";
import type { Sign } from "./sign.ts";
import { moment } from "./moment.ts";
import { CONNECTION_STATE } from "../generated/signs/connection-state.ts";

export interface Connection {
  id: string;
  number: number;
  user: string;
  client: string;
  /** The service that it is registered as. */
  service: string | null;
  transport: string;
  address: string | null;
  protocol: string;
  tls: boolean;
  since: string;
  closed_at: string | null;
  reason: string | null;
  bytes_in: number;
  bytes_out: number;
  frames_in: number;
  frames_out: number;
  in_rate: number;
  out_rate: number;
  subscriptions: number;
  transactions: number;
  unsettled: number;
  heart_beat_in_s: number;
  heart_beat_out_s: number;
  idle_s: number;
  congested: boolean;
  throttled: boolean;
  draining: boolean;
  slow: boolean;
}

/** The list of brokers that a client of a cluster was sent last; its version is 0 for none. */
export interface ClientList {
  list_version: number;
  list_since: string | null;
  behind: boolean;
}

export interface Consumer {
  id: string;
  destination: string;
  ack: string;
  selector: string | null;
  exclusive: boolean;
  active: boolean;
  priority: number;
  credit: number;
  unsettled: number;
  delivered: number;
  acknowledged: number;
  returned: number;
  waiting: number;
  since: string;
  slow_since: string | null;
}

export interface ClientEvent {
  at: string;
  first_at: string;
  event: ClientEventName;
  code: string;
  detail: string;
  by: string;
  times: number;
}

/** The state of a client. */
export function signOfConnection(connection: Connection): Sign {
  if (connection.closed_at !== null) return CONNECTION_STATE.disconnected;
  return CONNECTION_STATE[(["draining", "slow", "congested", "throttled"] as const).find((state) => connection[state]) ?? "connected"];
}

/** The name of a client: its client-id, else its user. */
export function nameOf(connection: Connection): string {
  return connection.client || connection.user;
}

/** "version 3 · 5 min ago", with a tag if there is a newer list; null for a broker that is in no cluster. */
export function listOf({ list_version: version, list_since: since, behind }: ClientList): TemplateResult | null {
  if (!version && !behind) return null;
  const list = since === null ? gettext("no list") : html`${gettext("version {version}", { version })} · ${moment(since)}`;
  return html`${list}${behind && version ? html` <span class="tag">${gettext("behind")}</span>` : nothing}`;
}

/** "STOMP 1.2 · websocket", with a lock where TLS protects it. */
export function protocolOf(connection: Connection): TemplateResult {
  const tls = html` <span class="tag" title=${gettext("The connection uses TLS")}>TLS</span>`;
  return html`${connection.protocol} · ${connection.transport}${connection.tls ? tls : nothing}`;
}
