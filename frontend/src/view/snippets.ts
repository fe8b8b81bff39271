/** Ready code for a destination, in the tools people have. */

export interface Snippet {
  tool: string;
  code: string;
}

export interface Server {
  /** Origin of this page, such as http://127.0.0.1:8000. */
  origin: string;
  host: string;
  stompPort: string;
  user: string;
}

export function publishSnippets(destination: string, server: Server): Snippet[] {
  const [kind, name] = split(destination);
  return [
    {
      tool: "curl",
      code: [
        `curl -u ${shell(server.user)} -H 'Content-Type: text/plain' -d 'Hello' \\`,
        `  ${shell(`${server.origin}/api/v1/${kind}s/${encodeURIComponent(name)}/messages`)}`,
      ].join("\n"),
    },
    { tool: "mom", code: `mom pub ${shell(kind === "queue" ? name : destination)} 'Hello'` },
    {
      tool: "Python · stomp.py",
      code: [
        "import getpass, stomp",
        "",
        `connection = stomp.Connection12([(${quoted(server.host)}, ${server.stompPort})])`,
        `connection.connect(${quoted(server.user)}, getpass.getpass(), wait=True)`,
        `connection.send(${quoted(destination)}, "Hello", content_type="text/plain")`,
        "connection.disconnect()",
      ].join("\n"),
    },
  ];
}

export function receiveSnippets(destination: string, server: Server): Snippet[] {
  const [kind, name] = split(destination);
  const snippets = [
    { tool: "mom", code: `mom sub ${shell(destination)}` },
    {
      tool: "JavaScript · @stomp/stompjs",
      code: [
        'import { Client } from "@stomp/stompjs";',
        "",
        "const client = new Client({",
        `  brokerURL: ${quoted(`${server.origin.replace(/^http/, "ws")}/ws`)},`,
        `  connectHeaders: { login: ${quoted(server.user)}, passcode: "…" },`,
        `  onConnect: () => client.subscribe(${quoted(destination)}, (message) => {`,
        "    console.log(message.body);",
        "    message.ack();",
        '  }, { ack: "client-individual" }),',
        "});",
        "client.activate();",
      ].join("\n"),
    },
  ];
  if (kind !== "queue") return snippets;
  const url = `${server.origin}/api/v1/queues/${encodeURIComponent(name)}/receive`;
  const code = `curl -u ${shell(server.user)} --json '{"wait_s": 20, "ack": "auto"}' \\\n  ${shell(url)}`;
  return [{ tool: "curl", code }, ...snippets];
}

function split(destination: string): [kind: string, name: string] {
  const [, kind = "queue", ...rest] = destination.split("/");
  return [kind, rest.join("/")];
}

function quoted(text: string): string {
  return JSON.stringify(text);
}

/** Bare when harmless, else in single quotes: a name may hold anything. */
function shell(text: string): string {
  return /^[\w./:@%+,=-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}
