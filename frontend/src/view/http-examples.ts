/** Example code of tools that use the REST API. */

import { gettext } from "../gettext.ts";
import { quoted, shell } from "./quoting.ts";
import { step, ofQueue, topicNote, type ExampleTarget, type Example } from "./example.ts";

export function curl({ kind, token, messages, receive, api }: ExampleTarget): Example {
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
  return { key: "curl", tool: "curl", steps: [step("produce", produce), ...ofQueue(kind, step("consume", consume))], ...topicNote(kind) };
}

export function httpie({ kind, token, messages, receive, api }: ExampleTarget): Example {
  const auth = token ? shell(`Authorization:Bearer ${token}`) : '"Authorization:Bearer $MOM_TOKEN"';
  const produce = `http --check-status POST ${shell(messages)} \\\n  ${auth} Content-Type:text/plain --raw 'Hello'`;
  const consume = [
    `http --check-status --ignore-stdin POST ${shell(receive)} \\`,
    `  ${auth} max:=1 wait_s:=20 lease_s:=60`,
    "# Acknowledge with the receipt of the response:",
    `http --check-status --ignore-stdin DELETE "${api}/leases/RECEIPT" ${auth}`,
  ].join("\n");
  return { key: "httpie", tool: "HTTPie", steps: [step("produce", produce), ...ofQueue(kind, step("consume", consume))], ...topicNote(kind) };
}

export function java({ kind, messages, receive, api, token }: ExampleTarget): Example {
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
    steps: [step("produce", produce), ...ofQueue(kind, step("consume", consume))],
  };
}

export function sse({ kind, token, api, name }: ExampleTarget): Example[] {
  if (kind !== "queue") return [];
  const auth = token ? shell(`Authorization: Bearer ${token}`) : '"Authorization: Bearer $MOM_TOKEN"';
  const url = `${api}/queues/${encodeURIComponent(name)}/events`;
  const code = [
    `curl --fail -sS -N -H ${auth} ${shell(url)}`,
    "# Each event has a receipt; acknowledge with it:",
    `# curl --fail -X DELETE -H ${auth} "${api}/leases/RECEIPT"`,
  ].join("\n");
  return [{ key: "sse", tool: gettext("Server-sent events"), steps: [step("callback", code)] }];
}
