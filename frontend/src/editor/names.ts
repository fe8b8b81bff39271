/** Names that there are, asked from the broker as far as somebody has typed. Who may not read them completes none. */

import { rest } from "../services.ts";

const MOST = 20;

export const userNames = (part: string): Promise<string[]> => namesOf("users", part);
export const groupNames = (part: string): Promise<string[]> => namesOf("groups", part);
export const destinationNames = (kind: string, part: string): Promise<string[]> => namesOf(kind, part);

async function namesOf(kind: string, part: string): Promise<string[]> {
  const query = new URLSearchParams({ q: part, fields: "name", limit: String(MOST) });
  try {
    const page = await rest.get<{ items: { name: string }[] }>(`${kind}?${query}`);
    return page.items.map(({ name }) => name.replace(/^\/(queue|topic)\//, ""));
  } catch {
    return [];
  }
}
