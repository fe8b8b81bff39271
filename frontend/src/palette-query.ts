/** What a text in the palette asks for: pages by words, or a command for something by name. */

import { gettext } from "./gettext.ts";

export type Kind = "message" | "queue" | "topic" | "client" | "bridge" | "callback" | "reflex" | "user" | "rule" | "alert rule" | "setting";

export const KINDS: Record<Kind, string> = {
  message: gettext("message"),
  queue: gettext("queue"),
  topic: gettext("topic"),
  client: gettext("client"),
  bridge: gettext("bridge"),
  callback: gettext("callback"),
  reflex: gettext("reflex"),
  user: gettext("user"),
  rule: gettext("rule"),
  "alert rule": gettext("alert rule"),
  setting: gettext("setting"),
};

export interface PaletteQuery<Verb> {
  verb: Verb | undefined;
  /** Set where the command is only for these: `pause bridge dc`. */
  kind: Kind | undefined;
  /** The searched name. */
  name: string;
}

/** `pause dc` is a command as soon as it names something; the word may be cut short. */
export function queryOf<Verb extends { word: string }>(text: string, verbs: Verb[]): PaletteQuery<Verb> {
  const [first = "", ...others] = text.trim().split(/\s+/);
  const verb = others.length > 0 ? verbs.find(({ word }) => word.toLowerCase().startsWith(first.toLowerCase())) : undefined;
  if (verb === undefined) return { verb, kind: undefined, name: text.trim() };
  const kind = others.length > 1 ? kindOf(others[0]!.toLowerCase()) : undefined;
  return { verb, kind, name: others.slice(kind ? 1 : 0).join(" ") };
}

/** A kind by its name in English or in the language of the page. */
function kindOf(word: string): Kind | undefined {
  return (Object.keys(KINDS) as Kind[]).find((kind) => word === kind || word === KINDS[kind].toLowerCase());
}

/** Whether a text is the id of a message: a UUID. */
export function isMessageId(text: string): boolean {
  return /^[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}$/i.test(text);
}

/** A label in parts: every second one is a word of the text, as the label has it. */
export function parted(label: string, text: string): string[] {
  const words = text.split(/\s+/).filter(Boolean);
  const literal = words.map((word) => word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
  return words.length ? label.split(new RegExp(`(${literal.join("|")})`, "gi")) : [label];
}

/** Whether a label contains each word of the text. */
export function hasWords(label: string, text: string): boolean {
  return text
    .toLowerCase()
    .split(/\s+/)
    .every((word) => label.toLowerCase().includes(word));
}
