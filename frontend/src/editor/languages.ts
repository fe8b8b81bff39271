/** The languages of the editor: highlighting and completion. */

import type { Completion, CompletionContext, CompletionResult, CompletionSource } from "@codemirror/autocomplete";
import { StreamLanguage, type StreamParser } from "@codemirror/language";
import type { Extension } from "@codemirror/state";
import { PROTOCOLS } from "../generated/configuration.ts";
import type { Fact, Method } from "../generated/tables.ts";
import { gettext } from "../gettext.ts";
import { destinationNames, groupNames, userNames } from "./names.ts";

const FACTS: Record<Fact, string> = {
  queue: gettext("name of the queue"),
  topic: gettext("name of the topic"),
  method: gettext("kind of access"),
  user: gettext("user"),
  group: gettext("a group of the user"),
  address: gettext("address of the client: 10.0.0.0/8"),
  protocol: gettext("protocol of the client"),
  tls: gettext("whether the connection uses TLS"),
  client: gettext("STOMP's client-id"),
};
const METHODS: Record<Method, string> = {
  POST: gettext("send"),
  GET: gettext("receive"),
  BROWSE: gettext("list messages"),
  READ: gettext("read without receiving"),
  MANAGE: gettext("purge, move, delete"),
};
const OPERATORS: Record<string, string> = {
  "==": gettext("is"),
  "!=": gettext("is not"),
  "=~": gettext("matches the regular expression"),
  "&&": gettext("and"),
  "||": gettext("or"),
};

const conditions: StreamParser<null> = {
  token(stream) {
    if (stream.eatSpace()) return null;
    if (stream.match(/^\/event\/\w*/)) return "propertyName";
    if (stream.match(/^(&&|\|\||==|!=|=~|!)/)) return "operator";
    if (stream.match(/^"(\\.|[^"\\])*"?/) || stream.match(/^'(\\.|[^'\\])*'?/)) return "string";
    if (stream.match(/^[\w.:@*>-]+/)) return "atom";
    stream.next();
    return null;
  },
};

/** The part of YAML that definitions use: names, strings, comments. */
const yaml: StreamParser<null> = {
  token(stream) {
    if (stream.eatSpace()) return null;
    if (stream.match(/^#.*/)) return "comment";
    if (stream.match(/^[\w.-]+(?=:(\s|$))/)) return "propertyName";
    if (stream.match(/^(allow|deny)\b/)) return "keyword";
    if (stream.match(/^"(\\.|[^"\\])*"?/) || stream.match(/^'[^']*'?/)) return "string";
    stream.match(/^[^\s#]+/) || stream.next();
    return null;
  },
};

/** The highlighting of a language; none for lists of names. */
export function highlightingOf(language: string): Extension {
  if (language === "conditions") return StreamLanguage.define(conditions);
  return language === "yaml" ? StreamLanguage.define(yaml) : [];
}

/** The completions of a language. */
export function completionOf(language: string): CompletionSource | undefined {
  if (language === "users") return named(userNames);
  if (language === "groups") return named(groupNames);
  return language ? ofConditions : undefined;
}

function named(find: (part: string) => Promise<string[]>): CompletionSource {
  return async (context) => {
    const line = context.matchBefore(/[^\n]*/)!;
    const part = line.text.trimStart();
    if (!part && !context.explicit) return null;
    return { from: context.pos - part.length, options: (await find(part)).map((label) => ({ label })) };
  };
}

async function ofConditions(context: CompletionContext): Promise<CompletionResult | null> {
  const value = context.matchBefore(/\/event\/\w+\s*[=!]=\s*["']?[^\s"'&|()]*/);
  if (value) return ofValue(context, value.text);
  const operator = context.matchBefore(/(?:\/event\/\w+\s+|[\w"')]\s+)[=!&|~]*/);
  if (operator && !/\/event\/\w*$/.test(operator.text)) {
    const typed = /[=!&|~]*$/.exec(operator.text)![0];
    return { from: context.pos - typed.length, options: optionsOf(OPERATORS) };
  }
  const path = context.matchBefore(/\/[\w/]*/);
  if (!path && !context.explicit) return null;
  const facts = Object.fromEntries(Object.entries(FACTS).map(([fact, about]) => [`/event/${fact}`, about]));
  return { from: path?.from ?? context.pos, options: optionsOf(facts), validFor: /^\/[\w/]*$/ };
}

async function ofValue(context: CompletionContext, text: string): Promise<CompletionResult> {
  const [, fact = "", part = ""] = /^\/event\/(\w+)\s*[=!]=\s*["']?(.*)$/.exec(text)!;
  return { from: context.pos - part.length, options: await valuesOf(fact, part) };
}

async function valuesOf(fact: string, part: string): Promise<Completion[]> {
  switch (fact) {
    case "method":
      return optionsOf(METHODS);
    case "protocol":
      return PROTOCOLS.map((label) => ({ label }));
    case "tls":
      return ["true", "false"].map((label) => ({ label }));
    case "user":
      return (await userNames(part)).map((label) => ({ label }));
    case "group":
      return (await groupNames(part)).map((label) => ({ label }));
    case "queue":
    case "topic":
      return (await destinationNames(`${fact}s`, part)).map((label) => ({ label }));
    default:
      return [];
  }
}

function optionsOf(about: Record<string, string>): Completion[] {
  return Object.entries(about).map(([label, detail]) => ({ label, detail }));
}
