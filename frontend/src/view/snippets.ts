/** Example code for a destination, for several tools. */

import { gettext } from "../gettext.ts";

/** The purpose of example code. */
export type Purpose = "produce" | "consume" | "callback";

export interface Snippet {
  tool: string;
  code: string;
}

/** A piece of code of a recipe. */
export interface Step {
  purpose: Purpose;
  code: string;
}

/** One tool, and what it can do with the destination. */
export interface Recipe {
  key: string;
  tool: string;
  steps: Step[];
  /** Requirements or limitations. */
  note?: string;
}

export interface Server {
  /** Origin of this page, such as http://127.0.0.1:8000. */
  origin: string;
  host: string;
  stompPort: string;
  user: string;
}

/** Everything the recipes are made of: addresses, and the token or where it is taken from. */
interface Ingredients {
  kind: string;
  name: string;
  destination: string;
  server: Server;
  /** Below /api/v1/. */
  api: string;
  /** Where it is published to. */
  messages: string;
  receive: string;
  socket: string;
  token: string;
}

/** All recipes for a destination. Without a token the code takes it from the environment's MOM_TOKEN. */
export function recipes(destination: string, server: Server, token = ""): Recipe[] {
  const [, kind = "queue", ...rest] = destination.split("/");
  const name = rest.join("/");
  const api = `${server.origin}/api/v1`;
  const path = `${api}/${kind}s/${encodeURIComponent(name)}`;
  const socket = `${server.origin.replace(/^http/, "ws")}/ws`;
  const made = { kind, name, destination, server, api, messages: `${path}/messages`, receive: `${path}/receive`, socket, token };
  const known = [curl(made), httpie(made), mom(made), momClient(made), stompPy(made), stompJs(made), java(made), ...sse(made)];
  if (!name.startsWith("$")) return known;
  // Only the broker publishes to system topics.
  return known.map((recipe) => ({ ...recipe, steps: recipe.steps.filter(({ purpose }) => purpose !== "produce") }));
}

/** Three ways to publish, for pages that are empty. */
export function publishSnippets(destination: string, server: Server): Snippet[] {
  const chosen = recipes(destination, server).filter(({ key }) => ["curl", "mom", "mom_client"].includes(key));
  return chosen.map(({ tool, steps }) => ({ tool, code: steps[0]!.code }));
}

function curl({ kind, token, messages, receive, api }: Ingredients): Recipe {
  const auth = token ? shell(`Authorization: Bearer ${token}`) : '"Authorization: Bearer $MOM_TOKEN"';
  const produce = `curl --fail -H ${auth} \\\n  -H 'Content-Type: text/plain' -d 'Hello' \\\n  ${shell(messages)}`;
  const consume = [
    `message=$(curl --fail -sS -H ${auth} \\`,
    `  --json '{"max": 1, "wait_s": 20, "lease_s": 60}' \\`,
    `  ${shell(receive)})`,
    'echo "$message"',
    "# Acknowledge with the receipt; otherwise the message is delivered again.",
    `receipt=$(echo "$message" | sed -n 's/.*"receipt":"\\([^"]*\\)".*/\\1/p')`,
    `test -z "$receipt" || curl --fail -X DELETE -H ${auth} "${api}/leases/$receipt"`,
  ].join("\n");
  return { key: "curl", tool: "curl", steps: [does("produce", produce), ...ofQueue(kind, does("consume", consume))], ...topicNote(kind) };
}

function httpie({ kind, token, messages, receive, api }: Ingredients): Recipe {
  const auth = token ? shell(`Authorization:Bearer ${token}`) : '"Authorization:Bearer $MOM_TOKEN"';
  const produce = `http --check-status POST ${shell(messages)} \\\n  ${auth} Content-Type:text/plain --raw 'Hello'`;
  const consume = [
    `http --check-status --ignore-stdin POST ${shell(receive)} \\`,
    `  ${auth} max:=1 wait_s:=20 lease_s:=60`,
    "# Acknowledge with the receipt of the response:",
    `http --check-status --ignore-stdin DELETE "${api}/leases/RECEIPT" ${auth}`,
  ].join("\n");
  return { key: "httpie", tool: "HTTPie", steps: [does("produce", produce), ...ofQueue(kind, does("consume", consume))], ...topicNote(kind) };
}

function mom({ kind, name, destination, server, token }: Ingredients): Recipe {
  const before = `export MOM_URL=${shell(server.origin)}${token ? ` MOM_TOKEN=${shell(token)}` : ""}\n`;
  const where = shell(kind === "queue" ? name : destination);
  return {
    key: "mom",
    tool: "mom",
    steps: [
      does("produce", `${before}mom pub ${where} 'Hello'`),
      does("consume", `${before}mom sub ${where} --ack each`),
      does("callback", `${before}mom sub ${where} --exec 'echo got {}'`),
    ],
  };
}

function momClient(made: Ingredients): Recipe {
  const { destination } = made;
  const opened = `mom_client.connect(${quoted(stompUrl(made))}${made.token ? `, token=${quoted(made.token)}` : ""})`;
  const wrapped = (lines: string[]) =>
    [
      "import asyncio",
      "import mom_client",
      "",
      "async def main():",
      `    async with ${opened} as mom:`,
      ...lines.map((line) => `        ${line}`),
      "",
      "asyncio.run(main())",
    ].join("\n");
  return {
    key: "mom_client",
    tool: "Python · mom_client",
    steps: [
      does("produce", wrapped([`await mom.send(${quoted(destination)}, "Hello")`])),
      does(
        "consume",
        wrapped([
          `async with mom.subscribe(${quoted(destination)}) as messages:`,
          "    async for message in messages:",
          "        print(message.text)",
          "        await message.ack()",
        ]),
      ),
    ],
  };
}

function stompPy({ destination, server, token }: Ingredients): Recipe {
  const passcode = token ? quoted(token) : 'os.environ["MOM_TOKEN"]';
  const head = [
    token ? "import stomp" : "import os\nimport stomp",
    "",
    `connection = stomp.Connection12([(${quoted(server.host)}, ${server.stompPort || 61613})])`,
  ];
  const login = `connection.connect("token", ${passcode}, wait=True)`;
  return {
    key: "stomp.py",
    tool: "Python · stomp.py",
    steps: [
      does(
        "produce",
        [...head, login, `connection.send(${quoted(destination)}, "Hello", content_type="text/plain", receipt="1")`, "connection.disconnect()"].join("\n"),
      ),
      does(
        "callback",
        [
          ...head.slice(0, 1),
          "import threading",
          ...head.slice(1),
          "",
          "class Listener(stomp.ConnectionListener):",
          "    def on_message(self, frame):",
          "        print(frame.body)",
          '        connection.ack(frame.headers["ack"])',
          "",
          'connection.set_listener("", Listener())',
          login,
          `connection.subscribe(${quoted(destination)}, id="1", ack="client-individual")`,
          "threading.Event().wait()",
        ].join("\n"),
      ),
    ],
  };
}

function stompJs({ destination, socket, token }: Ingredients): Recipe {
  const passcode = token ? quoted(token) : "process.env.MOM_TOKEN";
  const client = (connected: string[]) =>
    [
      'import { Client } from "@stomp/stompjs";',
      "",
      "const client = new Client({",
      `  brokerURL: ${quoted(socket)},`,
      `  connectHeaders: { login: "token", passcode: ${passcode} },`,
      "  onConnect: () => {",
      ...connected.map((line) => `    ${line}`),
      "  },",
      "});",
      "client.activate();",
    ].join("\n");
  return {
    key: "stompjs",
    tool: "JavaScript · @stomp/stompjs",
    note: gettext("For Node 22 or newer and browsers; older versions of Node need the package ws."),
    steps: [
      does("produce", client([`client.publish({ destination: ${quoted(destination)}, body: "Hello" });`, "client.deactivate();"])),
      does(
        "callback",
        client([
          "client.subscribe(",
          `  ${quoted(destination)},`,
          "  (message) => {",
          "    console.log(message.body);",
          "    message.ack();",
          "  },",
          '  { ack: "client-individual" },',
          ");",
        ]),
      ),
    ],
  };
}

function java({ kind, messages, receive, api, token }: Ingredients): Recipe {
  const bearer = token ? quoted(`Bearer ${token}`) : '"Bearer " + System.getenv("MOM_TOKEN")';
  const file = (lines: string[]) =>
    [
      "import java.net.URI;",
      "import java.net.http.*;",
      "",
      "class Mom {",
      "  public static void main(String[] args) throws Exception {",
      "    var client = HttpClient.newHttpClient();",
      ...lines.map((line) => `    ${line}`),
      "  }",
      "}",
    ].join("\n");
  const request = (url: string, body: string[]) => [
    `HttpRequest.newBuilder(URI.create(${url}))`,
    `    .header("Authorization", ${bearer})`,
    ...body.map((line) => `    ${line}`),
    "    .build()",
  ];
  const sent = (name: string, url: string, body: string[]) => {
    const [first, ...rest] = request(url, body);
    return [
      `var ${name} = client.send(${first}`,
      ...rest.slice(0, -1),
      `    .build(), HttpResponse.BodyHandlers.ofString());`,
      `System.out.println(${name}.statusCode() + " " + ${name}.body());`,
    ];
  };
  const produce = file(sent("reply", quoted(messages), ['.header("Content-Type", "text/plain")', '.POST(HttpRequest.BodyPublishers.ofString("Hello"))']));
  const consume = file([
    ...sent("reply", quoted(receive), [
      '.header("Content-Type", "application/json")',
      '.POST(HttpRequest.BodyPublishers.ofString("{\\"max\\": 1, \\"wait_s\\": 20, \\"lease_s\\": 60}"))',
    ]),
    'var receipt = java.util.regex.Pattern.compile("\\"receipt\\":\\"([^\\"]*)\\"").matcher(reply.body());',
    "if (receipt.find()) {",
    ...sent("acknowledged", `${quoted(`${api}/leases/`)} + receipt.group(1)`, [".DELETE()"]).map((line) => `  ${line}`),
    "}",
  ]);
  return {
    key: "java",
    tool: "Java",
    note: gettext("Java 11 or newer, without dependencies: java Mom.java. STOMP libraries for Java also work."),
    steps: [does("produce", produce), ...ofQueue(kind, does("consume", consume))],
  };
}

function sse({ kind, token, api, name }: Ingredients): Recipe[] {
  if (kind !== "queue") return [];
  const auth = token ? shell(`Authorization: Bearer ${token}`) : '"Authorization: Bearer $MOM_TOKEN"';
  const url = `${api}/queues/${encodeURIComponent(name)}/events`;
  const code = [
    `curl --fail -sS -N -H ${auth} ${shell(url)}`,
    "# Each event has a receipt; acknowledge with it:",
    `# curl --fail -X DELETE -H ${auth} "${api}/leases/RECEIPT"`,
  ].join("\n");
  return [{ key: "sse", tool: gettext("Server-sent events"), steps: [does("callback", code)] }];
}

function does(purpose: Purpose, code: string): Step {
  return { purpose, code };
}

/** Only for queues. */
function ofQueue(kind: string, ...steps: Step[]): Step[] {
  return kind === "queue" ? steps : [];
}

function topicNote(kind: string): { note?: string } {
  if (kind === "queue") return {};
  return { note: gettext("Topics are subscribed to over STOMP, on TCP or WebSocket.") };
}

/** Where STOMP clients connect to: the TCP port, or the WebSocket where there is none. */
function stompUrl({ server, socket }: Ingredients): string {
  return server.stompPort ? `stomp://${server.host}:${server.stompPort}` : socket;
}

function quoted(text: string): string {
  return JSON.stringify(text);
}

/** Bare when harmless, else in single quotes: a name may hold anything. */
function shell(text: string): string {
  return /^[\w./:@%+,=-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}
