/** The topology: what is connected with the broker, as nodes and lines. */

import type { NodeFigures } from "../live/node.ts";
import { consolePage, queuesPage } from "../pages.ts";
import type { Health } from "../generated/tables.ts";
import { gettext, ngettext } from "../gettext.ts";
import { count, duration, rate } from "./format.ts";
import { signIn, type Sign, type Tone } from "./sign.ts";
import { HEALTH } from "../generated/signs/health.ts";

export interface BridgeStatus {
  name: string;
  address: string;
  health: Health;
  error: { code: string; detail: string } | null;
  backlog: number;
  oldest_s: number;
  accepted_rate: number;
  sent_rate: number;
  progress_at: string | null;
  flow_count: number;
}

export interface Incoming {
  sender: string;
  source: string;
  at: string | null;
}

/** The response of `GET /forwarding?flows=false`. */
export interface Forwarding {
  bridges: BridgeStatus[];
  incoming: Incoming[];
}

export interface Vertex {
  id: string;
  title: string;
  text: string;
  /** What waits there; "" for nothing. */
  waits: string;
  href: string;
  tone: Tone;
  icon: string;
  /** Messages come from the left, and go to the right. */
  column: 0 | 1 | 2;
}

export interface Line {
  from: string;
  to: string;
  text: string;
  tone: Tone;
  flows: boolean;
}

export interface Drawing {
  vertices: Vertex[];
  lines: Line[];
}

/** Bridges that are drawn one by one; the others are one node. */
const MAX_BRIDGES = 8;
const MAX_SENDERS = 4;

export function signOfBridge({ health }: BridgeStatus): Sign {
  return signIn(HEALTH, health);
}

/** Whether a bridge needs attention: those come first. */
function rank(bridge: BridgeStatus): number {
  return ["bad", "warn", "good", "quiet"].indexOf(signOfBridge(bridge).tone);
}

export function topologyOf(node: NodeFigures, forwarding: Forwarding): Drawing {
  const bridges = [...forwarding.bridges].sort((a, b) => rank(a) - rank(b) || a.name.localeCompare(b.name));
  const forwarded = bridges.reduce((sum, { sent_rate }) => sum + sent_rate, 0);
  const consumed = Math.max(0, node.out_rate - forwarded);
  const vertices: Vertex[] = [
    vertex("producers", gettext("Producers"), gettext("{rate}/s", { rate: rate(node.in_rate) }), queuesPage({ sort: "-in_rate" }), 0),
    {
      ...vertex("broker", node.name, ngettext("{count} connection", "{count} connections", node.connections), consolePage("connections/"), 1),
      tone: "accent",
    },
    vertex("consumers", gettext("Consumers"), gettext("{rate}/s", { rate: rate(consumed) }), queuesPage({ sort: "-out_rate" }), 2),
  ];
  const lines: Line[] = [
    line("producers", "broker", gettext("{rate}/s", { rate: rate(node.in_rate) }), node.in_rate > 0),
    line("broker", "consumers", gettext("{rate}/s", { rate: rate(consumed) }), consumed > 0),
  ];
  for (const bridge of bridges.slice(0, MAX_BRIDGES)) {
    const { tone, icon, word } = signOfBridge(bridge);
    const id = `bridge ${bridge.name}`;
    const href = consolePage(`bridges/one?${new URLSearchParams({ name: bridge.name })}`);
    const waits = bridge.backlog ? ngettext("{count} waiting", "{count} waiting", bridge.backlog) : "";
    vertices.push({ id, title: bridge.name, text: word, waits, href, tone, icon, column: 2 });
    lines.push({ from: "broker", to: id, text: flowOf(bridge), tone, flows: bridge.accepted_rate > 0 });
  }
  if (bridges.length > MAX_BRIDGES) {
    const rest = bridges.length - MAX_BRIDGES;
    vertices.push(vertex("more bridges", ngettext("{count} more", "{count} more", rest), gettext("bridges"), consolePage("bridges/"), 2));
    lines.push(line("broker", "more bridges", "", false));
  }
  const senders = [...new Set(forwarding.incoming.map(({ sender }) => sender))];
  for (const sender of senders.slice(0, MAX_SENDERS)) {
    const id = `sender ${sender}`;
    vertices.push(vertex(id, sender.replace(/~[0-9a-f]+$/, ""), gettext("inbound forwarding"), consolePage("bridges/"), 0));
    lines.push(line(id, "broker", "", false));
  }
  return { vertices, lines };
}

/** The label of a bridge's line: its rate, or the time since the last progress. */
function flowOf(bridge: BridgeStatus): string {
  if (bridge.accepted_rate > 0) return gettext("{rate}/s", { rate: rate(bridge.accepted_rate) });
  if (["bad", "warn"].includes(signOfBridge(bridge).tone)) {
    const since = bridge.progress_at === null ? "" : ` ${duration(Math.max(0, (Date.now() - Date.parse(bridge.progress_at)) / 1000))}`;
    return `✕${since}`;
  }
  return gettext("{rate}/s", { rate: count(0) });
}

function vertex(id: string, title: string, text: string, href: string, column: Vertex["column"]): Vertex {
  return { id, title, text, waits: "", href, tone: "quiet", icon: "", column };
}

function line(from: string, to: string, text: string, flows: boolean): Line {
  return { from, to, text, tone: flows ? "good" : "quiet", flows };
}
