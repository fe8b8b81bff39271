/** The command that publishes a message once more. Loaded when it is asked for. */

import type { Server } from "../view/example.ts";
import { publishAsCode } from "./code.ts";
import { draftOf, ownHeaders } from "./draft.ts";
import type { Message } from "./requests.ts";

/** Its `text` is published to `destination`, by curl. */
export function publishMessageAsCode(message: Message, destination: string, text: string, server: Server): string {
  const draft = { ...draftOf(message), destination, body: text, headers: ownHeaders(message.headers) };
  return publishAsCode(draft, server)[0]!.code;
}
