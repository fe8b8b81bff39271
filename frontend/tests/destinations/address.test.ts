import { expect, test } from "vitest";
import { pathOf, topicOf } from "../../src/destinations/address.ts";

test("the path of a destination leads to it, whatever its name is", () => {
  const reached = (name: string) => new URL(pathOf("queue", name, "", { force: true }), "http://mom.example/api/v1/");
  for (const name of ["orders", "..", "a/b", "ä?&#"]) {
    expect(reached(name).pathname).toBe("/api/v1/queues");
    expect([...reached(name).searchParams]).toEqual([
      ["queue", name],
      ["force", "true"],
    ]);
  }
  expect(pathOf("topic", "prices", "stats", { step_s: 5, at: "" })).toBe("topics/stats?topic=prices&step_s=5");
});

test("levels of a name that are wildcards are encoded in the topic about it", () => {
  expect(topicOf("stats", "orders.*.>.#.a*")).toBe("/topic/$mom.stats.orders.%2A.%3E.%23.a*");
});
