import { expect, test } from "vitest";
import type { NodeFigures } from "../../src/live/node.ts";
import { type BridgeStatus, topologyOf, signOfBridge } from "../../src/view/topology.ts";

const NODE = { name: "mom", connections: 2, in_rate: 5, out_rate: 7 } as NodeFigures;

function bridge(change: Partial<BridgeStatus>): BridgeStatus {
  const idle = { address: "", error: null, backlog: 0, oldest_s: 0, accepted_rate: 0, sent_rate: 0, progress_at: null, flow_count: 0 };
  return { name: "b", health: "running", ...idle, ...change };
}

function titles(bridges: BridgeStatus[], senders: string[] = []): string[] {
  const incoming = senders.map((sender) => ({ sender, source: "", at: null }));
  return topologyOf(NODE, { bridges, incoming }).vertices.map(({ title, text, waits }) => `${title}: ${text}${waits && ` · ${waits}`}`);
}

test("bridges that need attention come first, and what waits for them is named", () => {
  const bridges = [bridge({ name: "a" }), bridge({ name: "c", health: "failing", backlog: 3 }), bridge({ name: "b", health: "degraded" })];
  expect(titles(bridges).slice(3)).toEqual(["c: failing · 3 waiting", "b: degraded", "a: running"]);
});

test("what is forwarded is not consumed here", () => {
  expect(titles([bridge({ sent_rate: 3 })])[2]).toBe("Consumers: 4.0/s");
  expect(titles([bridge({ sent_rate: 30 })])[2]).toBe("Consumers: 0/s");
});

test("a bridge that is paused is no trouble, and a health that the page does not know is its own word", () => {
  expect(signOfBridge(bridge({ health: "paused" }))).toMatchObject({ word: "paused", tone: "quiet" });
  expect(signOfBridge(bridge({ health: "of a later version" as BridgeStatus["health"] }))).toMatchObject({ word: "of a later version" });
});

test("many bridges and senders are drawn as few, each line between nodes that are there", () => {
  const { vertices, lines } = topologyOf(NODE, {
    bridges: Array.from({ length: 12 }, (_, at) => bridge({ name: `b${at}` })),
    incoming: ["x~0a1b", "x~0a1b", "y", "z", "v", "w"].map((sender) => ({ sender, source: "", at: null })),
  });
  expect(vertices.map(({ title }) => title).slice(-5)).toEqual(["4 more", "x", "y", "z", "v"]);
  const ids = new Set(vertices.map(({ id }) => id));
  expect(lines.filter(({ from, to }) => !ids.has(from) || !ids.has(to))).toEqual([]);
});
