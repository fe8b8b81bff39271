/** A message as a program that publishes it. */

import { DEFAULT_PRIORITY } from "../generated/messages.ts";
import { shell } from "../view/quoting.ts";
import type { Server } from "../view/example.ts";
import type { Snippet } from "../view/snippets.ts";
import type { Draft } from "./draft.ts";

/** The header fields of a draft under the names that `name` gives them. */
function fields(draft: Draft): [name: string, value: string][] {
  const given: [string, string | number | undefined][] = [
    ["Delay-S", draft.delay_s],
    ["Expires-S", draft.expires_s],
    ["Reply-To", draft.reply_to],
    ["Correlation-Id", draft.correlation_id],
    ["Type", draft.type],
    ["Dedup-Id", draft.dedup_id],
  ];
  const plain: [string, string | number][] = [];
  if (!draft.persistent) plain.push(["Persistent", "false"]);
  if (draft.priority !== DEFAULT_PRIORITY) plain.push(["Priority", draft.priority]);
  return [...plain, ...given.filter(([, value]) => value !== undefined && value !== "")].map(([name, value]) => [name, String(value)]);
}

const STOMP: Record<string, string> = { "Expires-S": "ttl-s" };

function stompHeaders(draft: Draft): Record<string, string> {
  const own = fields(draft).map(([name, value]) => [STOMP[name] ?? name.toLowerCase(), value]);
  return Object.fromEntries([["content-type", draft.contentType], ...own, ...Object.entries(draft.headers)].filter(([, value]) => value));
}

export function publishAsCode(draft: Draft, server: Server): Snippet[] {
  const [, kind = "queue", ...rest] = draft.destination.split("/");
  const name = rest.join("/");
  const address = `${server.origin}/api/v1/${kind}s/messages?${kind}=${encodeURIComponent(name)}`;
  const own = [
    ...fields(draft).map(([field, value]) => `Mom-${field}: ${value}`),
    ...Object.entries(draft.headers).map(([field, value]) => `Mom-Header-${field}: ${value}`),
  ];
  const { "content-type": contentType = "", ...others } = stompHeaders(draft);
  const momOptions = [
    ...(contentType ? [`-t ${shell(contentType)}`] : []),
    ...Object.entries(others).map(([field, value]) => `-H ${shell(`${field}=${value}`)}`),
    ...(/\{\{/.test(draft.body) ? ["--plain"] : []),
  ];
  const headers = JSON.stringify(stompHeaders(draft), null, 2);
  return [
    {
      tool: "curl",
      code: [
        `curl -u ${shell(server.user)} -H ${shell(`Content-Type: ${draft.contentType || "application/octet-stream"}`)} \\`,
        ...own.map((line) => `  -H ${shell(line)} \\`),
        `  --data-binary ${shell(draft.body)} \\`,
        `  ${shell(address)}`,
      ].join("\n"),
    },
    { tool: "mom", code: ["mom pub", ...momOptions, shell(kind === "queue" ? name : draft.destination), shell(draft.body.replace(/^@/, "@@"))].join(" ") },
    {
      tool: "Python · mom_client",
      code: [
        "import getpass",
        "from mom_client import blocking",
        "",
        `with blocking.connect(${JSON.stringify(`stomp://${server.host}:${server.stompPort}`)},`,
        `                      login=${JSON.stringify(server.user)}, passcode=getpass.getpass()) as mom:`,
        `    mom.send(${JSON.stringify(draft.destination)}, ${JSON.stringify(draft.body)},`,
        ...pythonOptions(draft).map((option) => `             ${option},`),
        "             )",
      ].join("\n"),
    },
    {
      tool: "JavaScript · @stomp/stompjs",
      code: [
        'import { Client } from "@stomp/stompjs";',
        "",
        "const client = new Client({",
        `  brokerURL: ${JSON.stringify(`${server.origin.replace(/^http/, "ws")}/ws`)},`,
        `  connectHeaders: { login: ${JSON.stringify(server.user)}, passcode: "…" },`,
        "  onConnect: () => client.publish({",
        `    destination: ${JSON.stringify(draft.destination)},`,
        `    headers: ${headers.replaceAll("\n", "\n    ")},`,
        `    body: ${JSON.stringify(draft.body)},`,
        "  }),",
        "});",
        "client.activate();",
      ].join("\n"),
    },
  ];
}

function pythonOptions(draft: Draft): string[] {
  const quoted: [string, string | undefined][] = [
    ["content_type", draft.contentType],
    ["reply_to", draft.reply_to],
    ["correlation_id", draft.correlation_id],
    ["dedup_id", draft.dedup_id],
  ];
  const headers = { ...draft.headers, ...(draft.type && { type: draft.type }) };
  return [
    ...quoted.filter(([, value]) => value).map(([name, value]) => `${name}=${JSON.stringify(value)}`),
    ...(draft.persistent ? [] : ["persistent=False"]),
    ...(draft.priority === DEFAULT_PRIORITY ? [] : [`priority=${draft.priority}`]),
    ...(draft.delay_s ? [`delay_s=${draft.delay_s}`] : []),
    ...(draft.expires_s ? [`ttl_s=${draft.expires_s}`] : []),
    ...(Object.keys(headers).length > 0 ? [`headers=${JSON.stringify(headers)}`] : []),
  ];
}
