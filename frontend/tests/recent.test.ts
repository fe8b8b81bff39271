import { beforeEach, expect, test } from "vitest";
import { recent, remember } from "../src/recent.ts";

beforeEach(() => localStorage.clear());

function visit(address: string, heading: string): void {
  history.replaceState(null, "", address);
  document.body.innerHTML = `<main id="main"><h1> ${heading} </h1></main>`;
  remember();
}

test("pages are remembered by their heading, the newest first, each once", () => {
  visit("/console/queues/", "Queues");
  visit("/console/queues/one?name=a", "a");
  visit("/console/queues/one?name=b&tab=publish", "b");
  visit("/console/queues/?filter=x", "Queues");
  visit("/console/queues/one?name=a&tab=history", "a");
  expect(recent()).toEqual([
    { label: "a", href: "/console/queues/one?name=a&tab=history" },
    { label: "Queues", href: "/console/queues/?filter=x" },
    { label: "b", href: "/console/queues/one?name=b&tab=publish" },
  ]);
});

test("eight pages are remembered, and none without a heading", () => {
  for (let page = 0; page < 10; page += 1) visit(`/console/${page}`, `Page ${page}`);
  visit("/console/empty", "");
  expect(recent().map(({ label }) => label)).toEqual([9, 8, 7, 6, 5, 4, 3, 2].map((page) => `Page ${page}`));
});
