import { expect, test } from "vitest";
import { publishAsCode } from "../../src/messages/code.ts";
import type { Draft } from "../../src/messages/draft.ts";

const SERVER = { origin: "http://mom.example", host: "mom.example", stompPort: "61613", user: "jane" };
const PLAIN: Draft = { destination: "/queue/orders", body: "Hello", contentType: "text/plain", headers: {}, persistent: true, priority: 4 };

function codeBy(draft: Draft): Record<string, string> {
  return Object.fromEntries(publishAsCode(draft, SERVER).map(({ tool, code }) => [tool, code]));
}

test("what is as by default is left out", () => {
  const { curl, mom } = codeBy(PLAIN);
  expect(curl).not.toContain("Mom-");
  expect(mom).toBe("mom pub -t text/plain orders Hello");
});

test("options have the names that each tool gives them", () => {
  const draft = { ...PLAIN, persistent: false, priority: 9, delay_s: 5, expires_s: 60, dedup_id: "one", headers: { tenant: "acme ltd" } };
  const { curl, mom, "Python · mom_client": python, "JavaScript · @stomp/stompjs": javascript } = codeBy(draft);
  expect(curl).toContain("-H 'Mom-Expires-S: 60'");
  expect(curl).toContain("-H 'Mom-Header-tenant: acme ltd'");
  expect(mom).toContain("-H persistent=false -H priority=9 -H delay-s=5 -H ttl-s=60 -H dedup-id=one -H 'tenant=acme ltd'");
  for (const option of ['dedup_id="one"', "persistent=False", "priority=9", "delay_s=5", "ttl_s=60", 'headers={"tenant":"acme ltd"}']) {
    expect(python).toContain(`${option},`);
  }
  expect(javascript).toContain('"ttl-s": "60"');
});

test("a body that mom would read as a file or fill in is sent as it is", () => {
  const { mom } = codeBy({ ...PLAIN, body: "@{{n}}" });
  expect(mom).toBe("mom pub -t text/plain --plain orders '@@{{n}}'");
});
