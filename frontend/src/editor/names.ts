/** Existing names for completion, requested by prefix; none if the user may not list them. */

import { read } from "../live/requests.ts";

const MOST = 20;

export const userNames = (part: string): Promise<string[]> => namesOf("users", part);
export const groupNames = (part: string): Promise<string[]> => namesOf("groups", part);
export const destinationNames = (kind: string, part: string): Promise<string[]> => namesOf(kind, part);

async function namesOf(kind: string, part: string): Promise<string[]> {
  try {
    const page = await read<{ items: { name: string }[] }>(kind, { q: part, fields: "name", limit: MOST });
    return page.items.map(({ name }) => name.replace(/^\/(queue|topic)\//, ""));
  } catch {
    return [];
  }
}
