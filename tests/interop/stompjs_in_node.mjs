// Runs one scenario in Node: node stompjs_in_node.mjs <path of stompjs> <scenario> <settings as JSON>
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';

const [, , library, name, settings] = process.argv;
const StompJs = createRequire(import.meta.url)(library);
(0, eval)(readFileSync(new URL('stompjs_scenarios.js', import.meta.url), 'utf8'));
const wrong = await globalThis.runScenario(StompJs, name, JSON.parse(settings));
if (wrong) console.error(wrong);
process.exit(wrong ? 1 : 0);
