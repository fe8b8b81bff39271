import { expect, test } from "vitest";
import { obstacle } from "../../src/messages/bulk-bar.ts";

const ANY = { queue: "orders", chosen: 0, condition: {}, rights: ["read", "manage"] };

test("an action needs its right, once the rights are known", () => {
  expect(obstacle("copy", { ...ANY, rights: ["read"] })).toBe("");
  expect(obstacle("move", { ...ANY, rights: ["read"] })).toBe("Requires the right manage on orders.");
  expect(obstacle("move", { ...ANY, rights: undefined })).toBe("");
});

test("unsettled messages are left to their consumer, delayed ones can be deleted and exported", () => {
  const possible = (state: "unsettled" | "delayed") =>
    (["retry", "move", "copy", "export", "delete"] as const).filter((op) => !obstacle(op, { ...ANY, condition: { state } }));
  expect(possible("unsettled")).toEqual([]);
  expect(possible("delayed")).toEqual(["export", "delete"]);
  expect(obstacle("move", { ...ANY, chosen: 1, condition: { state: "delayed" } })).toBe("");
});
