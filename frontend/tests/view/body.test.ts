import { expect, test } from "vitest";
import type { BrowsedMessage } from "../../src/live/rest.ts";
import { bodyOf, compressionOf, hexDump, opened, preview, sniffBytes } from "../../src/view/body.ts";

function message(change: Partial<BrowsedMessage>): BrowsedMessage {
  const known = { id: "1", position: 1, time: "", size: 0, priority: 4, persistent: true, attempt: 1, redelivered: false, state: "ready" as const };
  return { ...known, content_type: null, headers: {}, truncated: false, ...change };
}
const utf8 = (text: string) => new TextEncoder().encode(text);

test("a body that the broker parsed is JSON, and its bytes are not the original ones", () => {
  const body = bodyOf(message({ content_type: "application/json", body: { a: 1 }, size: 99 }));
  expect([body.json, body.text, body.exact]).toEqual([{ a: 1 }, '{"a":1}', false]);
});

test("text is looked at, whatever its content type: JSON, XML, forms", () => {
  expect(bodyOf(message({ body: ' [1, "a"]' })).json).toEqual([1, "a"]);
  expect(bodyOf(message({ body: "[draft] hello" }))).toMatchObject({ text: "[draft] hello", exact: false });
  expect(bodyOf(message({ body: "<a>b</a>" })).xml).toBe(true);
  expect(bodyOf(message({ body: "a=1&b=%20", content_type: "application/x-www-form-urlencoded; charset=utf-8" })).form).toEqual([
    ["a", "1"],
    ["b", " "],
  ]);
});

test("a body of JSON that was cut is text", () => {
  expect(bodyOf(message({ content_type: "application/json", body: '{"a": 1', truncated: true }))).toMatchObject({ text: '{"a": 1' });
});

test("bytes are text when they are UTF-8 without control characters", () => {
  expect(sniffBytes(utf8("grün\n"), null).text).toBe("grün\n");
  expect(sniffBytes(new Uint8Array([0xff, 0x41]), null).text).toBeUndefined();
  expect(sniffBytes(utf8("a\u0000b"), null).text).toBeUndefined();
  expect(bodyOf(message({ body_base64: "AAE=", size: 2 }))).toMatchObject({ bytes: new Uint8Array([0, 1]), exact: true });
});

test("the preview is one line", () => {
  expect(preview(bodyOf(message({ body: "a\n\t b" })))).toBe("a b");
  expect(preview(bodyOf(message({ body_base64: "AP8=" })))).toBe("00 ff");
});

test("a dump has an offset, sixteen bytes and their ASCII in a line", () => {
  expect(hexDump(utf8("MOM: 0123456789AB"), 256).split("\n")).toEqual([
    "000100  4d 4f 4d 3a 20 30 31 32  33 34 35 36 37 38 39 41  MOM: 0123456789A",
    `000110  42${" ".repeat(48)}B`,
  ]);
  expect(
    hexDump(new Uint8Array(16 * 1024 + 3))
      .split("\n")
      .at(-1),
  ).toBe("… 3 bytes more");
});

test("compressed bytes are known by their beginning, and opened up to a limit", async () => {
  const stream = new Blob(["hello ".repeat(100)]).stream().pipeThrough(new CompressionStream("gzip"));
  const bytes = new Uint8Array(await new Response(stream).arrayBuffer());
  expect([compressionOf(bytes), compressionOf(new Uint8Array([0x78, 0x9c])), compressionOf(utf8("xyz"))]).toEqual(["gzip", "deflate", undefined]);
  expect(new TextDecoder().decode(await opened(bytes, "gzip", 11))).toBe("hello hello");
  await expect(opened(bytes.slice(0, 20).fill(1, 10), "gzip", 10)).rejects.toThrow();
});
