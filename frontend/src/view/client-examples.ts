/** Example code of `mom`, and of client libraries over STOMP. */

import { gettext } from "../gettext.ts";
import { quoted, shell } from "./quoting.ts";
import { step, type ExampleTarget, type Example } from "./example.ts";

export function mom({ kind, name, destination, server, token }: ExampleTarget): Example {
  const before = `export MOM_URL=${shell(server.origin)}${token ? ` MOM_TOKEN=${shell(token)}` : ""}\n`;
  const where = shell(kind === "queue" ? name : destination);
  return {
    key: "mom",
    tool: "mom",
    steps: [
      step("produce", `${before}mom pub ${where} 'Hello'`),
      step("consume", `${before}mom sub ${where} --ack each`),
      step("callback", `${before}mom sub ${where} --exec 'echo got {}'`),
    ],
  };
}

export function momClient(target: ExampleTarget): Example {
  const { destination } = target;
  const opened = `mom_client.connect(${quoted(stompUrl(target))}${target.token ? `, token=${quoted(target.token)}` : ""})`;
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
      step("produce", wrapped([`await mom.send(${quoted(destination)}, "Hello")`])),
      step(
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

export function stompPy({ destination, server, token }: ExampleTarget): Example {
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
      step(
        "produce",
        [...head, login, `connection.send(${quoted(destination)}, "Hello", content_type="text/plain", receipt="1")`, "connection.disconnect()"].join("\n"),
      ),
      step(
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

export function stompJs({ destination, socket, token }: ExampleTarget): Example {
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
      step("produce", client([`client.publish({ destination: ${quoted(destination)}, body: "Hello" });`, "client.deactivate();"])),
      step(
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

/** Where STOMP clients connect to: the TCP port, or the WebSocket where there is none. */
function stompUrl({ server, socket }: ExampleTarget): string {
  return server.stompPort ? `stomp://${server.host}:${server.stompPort}` : socket;
}
