import { afterEach, expect, test, vi } from "vitest";
import { MessageSearch } from "../../src/messages/message-search.ts";
import * as requests from "../../src/messages/requests.ts";

const HOST = { queue: "orders", addController: vi.fn(), removeController: vi.fn(), requestUpdate: vi.fn(), updateComplete: Promise.resolve(true) };

/** Pages of a search that the broker ends after each 100 of 300 messages. */
function pages(): requests.MessagePage[] {
  const page = (number: number) => ({ items: [], next: `${number}`, approx_total: 300, scanned: 100, stopped: number < 3 });
  return [page(1), page(2), page(3)] as unknown as requests.MessagePage[];
}

afterEach(() => vi.restoreAllMocks());

test("a search goes on by itself, from where it was, until the broker has seen all", async () => {
  const left = pages();
  const browse = vi.spyOn(requests, "browse").mockImplementation(async () => left.shift()!);
  const search = new MessageSearch(HOST, () => undefined);
  await search.read();
  expect(browse.mock.calls.map(([, asked]) => asked.after)).toEqual([null, "1", "2"]);
  expect(search.results.scanned).toBe(300);
  expect(search.results.stopped).toBe(false);
});

test("it stops when it is asked to, and goes on later", async () => {
  const left = pages();
  const search: MessageSearch = new MessageSearch(HOST, () => undefined);
  const browse = vi.spyOn(requests, "browse").mockImplementation(async () => {
    if (browse.mock.calls.length === 2) search.halt();
    return left.shift()!;
  });
  await search.read();
  expect([search.results.scanned, search.results.stopped]).toEqual([200, true]);
  search.goOn();
  await vi.waitFor(() => expect(search.results.scanned).toBe(300));
});
