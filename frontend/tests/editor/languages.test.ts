import { CompletionContext, type CompletionResult } from "@codemirror/autocomplete";
import { EditorState } from "@codemirror/state";
import { expect, test } from "vitest";
import { completionOf } from "../../src/editor/languages.ts";

async function completed(text: string): Promise<string[]> {
  const context = new CompletionContext(EditorState.create({ doc: text }), text.length, true);
  const found = (await completionOf("conditions")!(context)) as CompletionResult | null;
  return (found?.options ?? []).map(({ label }) => label);
}

test("a condition is completed with the facts, operators and values that it can have", async () => {
  expect(await completed("/event/")).toContain("/event/protocol");
  expect(await completed("/event/queue ")).toEqual(["==", "!=", "=~", "&&", "||"]);
  expect(await completed("/event/method == ")).toEqual(["POST", "GET", "BROWSE", "READ", "MANAGE"]);
  expect(await completed("/event/protocol == ")).toEqual(["stomp", "websocket", "rest", "local", "callback"]);
});
