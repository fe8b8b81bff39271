/** What the palette finds at the broker: resources by their names, clients, settings, a message by its id. */

import { MAX_PAGE } from "./generated/tables.ts";
import { read } from "./live/requests.ts";
import { hasWords, isMessageId, type Kind } from "./palette-query.ts";
import { connectionPage, consolePage, pageOf } from "./pages.ts";

/** Results of a kind. */
const FOUND = 8;

export interface Found {
  kind: Kind;
  name: string;
  href: string;
  hint?: string;
}

/** Something that the palette searches: its kinds, the page whose users may list it, and what it finds. */
interface Place {
  /** A page of the navigation, below the console; empty for all users. */
  page: string;
  find: (query: string) => Promise<Found[]>;
}

const edit = (path: string) => (name: string) => consolePage(`${path}?${new URLSearchParams({ name })}`);

/** In the order in which their results are shown. */
const PLACES: Place[] = [
  { page: "", find: message },
  { page: "", find: (query) => destinations("queue", query) },
  { page: "", find: (query) => destinations("topic", query) },
  { page: "", find: clients },
  named("bridge", "bridges/", "bridges", edit("bridges/one")),
  named("callback", "callbacks/", "callbacks", edit("callbacks/one")),
  named("reflex", "reflexes/", "reflex-status", edit("reflexes/one")),
  named("user", "users/", "users", edit("users/edit")),
  named("rule", "rules/", "rules", edit("rules/edit")),
  named("alert rule", "alerts/", "alerts/rules", edit("alerts/rules/edit")),
  { page: "configuration/", find: settings },
];

/** Lists that are read once for a palette; what is typed further only filters them. */
let lists = new Map<string, Promise<Row[]>>();

interface Row {
  name: string;
  about?: string;
}

/** Forget the lists: another palette reads them again. */
export function forgetLists(): void {
  lists = new Map();
}

/** Search everything that the user may list. `take` is called with the results of each place as they come, with the number of the place. */
export async function search(query: string, take: (place: number, found: Found[]) => void): Promise<void> {
  const pages = new Set(Array.from(document.querySelectorAll<HTMLAnchorElement>("#pages a"), (link) => link.pathname));
  const asked = PLACES.map(({ page, find }, place) => {
    if (page && !pages.has(consolePage(page))) return undefined;
    // What cannot be had is not found: the other results count.
    return find(query).then(
      (found) => take(place, found.slice(0, FOUND)),
      () => take(place, []),
    );
  });
  await Promise.all(asked);
}

function named(kind: Kind, page: string, path: string, href: (name: string) => string): Place {
  return {
    page,
    find: async (query) => (await listed(path)).filter(({ name }) => hasWords(name, query)).map(({ name }) => ({ kind, name, href: href(name) })),
  };
}

function listed(path: string): Promise<Row[]> {
  let list = lists.get(path);
  if (list === undefined) {
    list = read<{ items: Row[] }>(path, path === "reflex-status" ? {} : { limit: MAX_PAGE }).then(({ items }) => items);
    lists.set(path, list);
  }
  return list;
}

async function destinations(kind: "queue" | "topic", query: string): Promise<Found[]> {
  const { items } = await read<{ items: Row[] }>(`${kind}s`, { q: query, limit: FOUND, fields: "name" });
  return items.map(({ name }) => ({ kind, name, href: pageOf(`/${kind}/${name}`) }));
}

async function clients(query: string): Promise<Found[]> {
  const { items } = await read<{ items: { id: string; user: string; client: string | null; address: string | null }[] }>("connections", {
    filter: query,
    limit: FOUND,
    fields: "id,user,client,address",
  });
  return items.map(({ id, user, client, address }) => ({
    kind: "client",
    name: client || user,
    href: connectionPage(id),
    hint: [client && user, address].filter(Boolean).join(" · "),
  }));
}

async function settings(query: string): Promise<Found[]> {
  let list = lists.get("config");
  if (list === undefined) {
    list = read<{ settings: Row[]; destinations: Row[] }>("config").then((found) => [...found.settings, ...found.destinations]);
    lists.set("config", list);
  }
  return (await list)
    .filter(({ name, about = "" }) => hasWords(`${name} ${name.replaceAll("_", " ")} ${about}`, query))
    .sort((one, other) => Number(hasWords(other.name, query)) - Number(hasWords(one.name, query)))
    .map(({ name }) => ({ kind: "setting", name, href: consolePage(`configuration/?${new URLSearchParams({ filter: name })}`) }));
}

/** The queue of a message: its id has the position in the journal, by which the broker finds it. */
async function message(query: string): Promise<Found[]> {
  if (!isMessageId(query)) return [];
  const { queue, broker } = await read<{ queue: string; broker?: string }>(`messages/${query}/queue`);
  return [{ kind: "message", name: query, href: pageOf(`/queue/${queue}`, "messages", { message: query }), hint: [queue, broker].filter(Boolean).join(" · ") }];
}
