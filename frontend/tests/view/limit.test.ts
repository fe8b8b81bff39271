import { expect, test } from "vitest";
import { limitInCluster } from "../../src/view/limit.ts";

const LIMIT = { limit: 100, scope: "broker", brokers: 3, effective: 300 } as const;

test("a limit in a cluster has its scope and the limit of all brokers", () => {
  expect(limitInCluster(LIMIT, String)).toBe("per broker, 300 effective");
  expect(limitInCluster({ ...LIMIT, scope: "cluster", effective: 100 }, String)).toBe("per cluster, 100 effective");
});

test("a limit without a cluster is shown alone", () => {
  expect(limitInCluster({ ...LIMIT, brokers: 1, effective: 100 }, String)).toBe("");
  expect(limitInCluster(undefined, String)).toBe("");
});
