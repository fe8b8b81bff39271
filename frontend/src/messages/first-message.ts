/** Commands that publish the first message of an empty queue. Loaded for a queue that is empty. */

import type { TemplateResult } from "lit";
import { snippetBlock } from "../islands/snippet-block.ts";
import type { Server } from "../view/example.ts";
import { publishSnippets } from "../view/snippets.ts";

export function firstMessage(queue: string, server: Server): TemplateResult[] {
  return publishSnippets(`/queue/${queue}`, server).map(snippetBlock);
}
