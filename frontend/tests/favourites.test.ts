import { beforeEach, expect, test } from "vitest";
import { favourites } from "../src/favourites.ts";

beforeEach(() => localStorage.clear());

test("a destination is marked, and its mark taken away", () => {
  favourites.toggle("/queue/orders");
  favourites.toggle("/topic/prices");
  expect(favourites.addresses).toEqual(["/queue/orders", "/topic/prices"]);
  favourites.toggle("/queue/orders");
  expect(favourites.has("/queue/orders")).toBe(false);
  expect(favourites.has("/topic/prices")).toBe(true);
});

test("the oldest mark goes when there are too many", () => {
  for (let number = 0; number < 21; number += 1) favourites.toggle(`/queue/q${number}`);
  expect(favourites.addresses).toHaveLength(20);
  expect(favourites.has("/queue/q0")).toBe(false);
});

test("who shows marks is heard of changes", () => {
  let heard = 0;
  const leave = favourites.watch(() => (heard += 1));
  favourites.toggle("/queue/orders");
  leave();
  favourites.toggle("/queue/orders");
  expect(heard).toBe(1);
});
