import { expect, test } from "vitest";
import { withFirstKeys } from "../src/first-keys.ts";

const press = (key: string, more: KeyboardEventInit = {}) => document.body.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, ...more }));

test("what is typed while a module is loaded is given with it, and obeyed by nothing else", async () => {
  const heard: string[] = [];
  addEventListener("keydown", (event) => heard.push(event.key));
  let arrive = (_: string) => {};
  const opening = withFirstKeys(() => new Promise<string>((resolve) => (arrive = resolve)));
  press("g");
  press("Shift");
  press("k", { ctrlKey: true });
  press("q");
  arrive("palette");
  expect(await opening).toEqual(["palette", "gq"]);
  press("g");
  expect(heard).toEqual(["Shift", "k", "g"]);
});
