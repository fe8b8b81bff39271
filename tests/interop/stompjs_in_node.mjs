// Runs scenarios in Node: node stompjs_in_node.mjs <path of stompjs>. A line of its input is [scenario, settings]
// as JSON, and has one as its answer: a text about the failure, which is empty if there was none.
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { createInterface } from 'node:readline';

const StompJs = createRequire(import.meta.url)(process.argv[2]);
(0, eval)(readFileSync(new URL('stompjs_scenarios.js', import.meta.url), 'utf8'));
for await (const line of createInterface({ input: process.stdin })) {
  console.log(JSON.stringify(await globalThis.runScenario(StompJs, ...JSON.parse(line))));
}
process.exit(0);
