/** The search box of messages: parses its text into conditions of the REST API. */

import { MESSAGE_STATES } from "../generated/messages.ts";
import { gettext } from "../gettext.ts";

type MessageState = (typeof MESSAGE_STATES)[number];

/** Conditions, all of which must match. The same as the filter of a job, except for the state `unsettled`. */
export interface Condition {
  q?: string;
  selector?: string;
  reason?: string;
  origin?: string;
  headers?: Record<string, string>;
  age_gt_s?: number;
  age_lt_s?: number;
  ids?: string[];
  state?: MessageState;
}

/** The search is invalid; the message contains the reason. */
export class SearchError extends Error {}

/** `name:value`, `name=value` or `name>value`, a quoted text, or a word. */
const TERM = /(?:([A-Za-z_][\w.-]*)(>=?|<=?|[:=]))?(?:"((?:[^"\\]|\\.)*)"|(\S+))/g;
/** Operators with blanks around them, or SQL's words in capitals: then all of it is a selector. */
const SELECTOR = /\s(=|<>|!=|<=?|>=?)\s|\b(LIKE|IN|BETWEEN)\b|\bIS (NOT )?NULL\b/;
/** Headers that have a name of their own in the box. */
const OWN_HEADERS = new Set(["type", "content-type", "correlation-id", "reply-to"]);

/**
 * `paid header.tenant=acme age>1h reason:"schema v3" origin:orders is:delayed id:01J…`; other words are looked for in body
 * and headers. `colour = 'red' AND size > 3` is a selector. Throws SearchError.
 */
export function parse(text: string): Condition {
  const written = text.trim();
  if (SELECTOR.test(written.replace(/"(?:[^"\\]|\\.)*"/g, ""))) return { selector: written };
  const found: Condition = {};
  const words: string[] = [];
  for (const [whole, name, operator, quoted, plain] of written.matchAll(TERM)) {
    const value = quoted === undefined ? plain! : quoted.replace(/\\(.)/g, "$1");
    if (name === undefined || !take(found, name, operator!, value)) words.push(name === undefined ? value : whole);
  }
  if (words.length > 0) found.q = words.join(" ");
  return found;
}

/** Whether the term is a condition; other words with a colon, such as an address of the web, are text. */
function take(found: Condition, name: string, operator: string, value: string): boolean {
  if (name === "age") return takeAge(found, operator, value);
  if (operator !== ":" && operator !== "=") return false;
  const header = name.startsWith("header.") ? name.slice(7) : OWN_HEADERS.has(name) || operator === "=" ? name : "";
  if (name === "reason" || name === "origin" || name === "selector") once(found, name, value);
  else if (name === "id") found.ids = [...(found.ids ?? []), value];
  else if (name === "is" || name === "state") once(found, "state", stateOf(value));
  else if (header) found.headers = { ...found.headers, [header]: value };
  else return false;
  return true;
}

function takeAge(found: Condition, operator: string, value: string): boolean {
  const seconds = secondsOf(value);
  if (operator.startsWith(">")) once(found, "age_gt_s", seconds);
  else if (operator.startsWith("<")) once(found, "age_lt_s", seconds);
  else throw new SearchError(gettext("An age needs < or >, such as age>1h or age<30min."));
  return true;
}

const UNITS: Record<string, number> = { s: 1, m: 60, min: 60, h: 3600, d: 86_400 };

function secondsOf(text: string): number {
  const [, number, unit = "s"] = /^(\d+(?:\.\d+)?)(s|m|min|h|d)?$/.exec(text) ?? [];
  if (number === undefined) throw new SearchError(gettext("{text} is not an age. Write 90s, 5min, 2h or 3d.", { text }));
  return Number(number) * UNITS[unit]!;
}

function stateOf(text: string): MessageState {
  if (!(MESSAGE_STATES as readonly string[]).includes(text)) {
    throw new SearchError(gettext("{text} is not a message state. Use ready, unsettled or delayed.", { text }));
  }
  return text as MessageState;
}

function once<Name extends keyof Condition>(found: Condition, name: Name, value: Condition[Name]): void {
  if (found[name] !== undefined) throw new SearchError(gettext("{name} occurs twice.", { name }));
  found[name] = value;
}

/** Whether every message matches. */
export function isEmpty(condition: Condition): boolean {
  return Object.keys(condition).length === 0;
}

/** The condition as parameters of an address. */
export function queryOf(condition: Condition): URLSearchParams {
  const { headers, ids, state, ...plain } = condition;
  const query = new URLSearchParams();
  if (ids) {
    query.set("where", lineOf(condition));
  } else {
    for (const [name, value] of Object.entries(plain)) query.set(name, String(value));
    for (const [name, value] of Object.entries(headers ?? {})) query.set(`header.${name}`, value);
  }
  if (state) query.set("state", state);
  return query;
}

/** All but the state in one line, which alone can name ids. */
function lineOf({ headers, ids, state: _, ...plain }: Condition): string {
  const quote = (text: unknown) => `"${String(text).replace(/["\\]/g, "\\$&")}"`;
  return [
    ...ids!.map((id) => `id:${quote(id)}`),
    ...Object.entries(headers ?? {}).map(([name, value]) => `header.${name}:${quote(value)}`),
    ...Object.entries(plain).map(([name, value]) => `${name}:${quote(value)}`),
  ].join(" ");
}

/** `text` with one more term, or without it where it is there already. */
export function toggled(text: string, name: "reason" | "origin", value: string): string {
  const term = `${name}:"${value.replace(/["\\]/g, "\\$&")}"`;
  if (text.includes(term)) return text.replace(term, "").replace(/\s+/g, " ").trim();
  const others = [...text.matchAll(TERM)].filter((match) => match[1] !== name).map(([whole]) => whole);
  return [...others, term].join(" ");
}
