import { expect, test } from "vitest";
import { parseAnswer, parseLossless } from "../src/lossless-json.ts";

test("numbers of others keep their text", () => {
  const text = '{"price":12.00,"big":12345678901234567890,"exponent":1e3,"plain":7}';
  expect(JSON.stringify(parseLossless(text))).toBe(text);
});

test("numbers of an answer are numbers, except in bodies, and where a number could not hold them", () => {
  const answer = parseAnswer('{"rate":1.50,"position":12345678901234567890,"items":[{"body":{"price":1.50}}]}') as Record<string, unknown>;
  expect(answer.rate).toBe(1.5);
  expect(JSON.stringify(answer)).toBe('{"rate":1.5,"position":12345678901234567890,"items":[{"body":{"price":1.50}}]}');
});
