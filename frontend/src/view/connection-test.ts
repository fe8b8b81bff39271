/** Connection test: its steps, each with result and fix. */

import { html, nothing, type TemplateResult } from "lit";
import type { ConnectionTestStep } from "../generated/tables.ts";
import { gettext } from "../gettext.ts";
import { iconView } from "./icon.ts";

export interface Step {
  name: string;
  /** Null if the step was not tested. */
  ok: boolean | null;
  detail: string;
  fix: string;
  seconds: number;
}

export interface ConnectionTest {
  ok: boolean;
  server: string;
  seconds: number;
  steps: Step[];
}

const APART_MS = 120;

/** Show one step after the other; all at once for users who prefer reduced motion. */
export async function reveal(trial: ConnectionTest, draw: (steps: Step[]) => void): Promise<void> {
  const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
  for (let count = still ? trial.steps.length : 1; count <= trial.steps.length; count += 1) {
    draw(trial.steps.slice(0, count));
    if (!still) await new Promise((resolve) => setTimeout(resolve, APART_MS));
  }
}

/** The finished steps, of all in `names`; `trial` is the result when the test has ended. */
export function connectionTestView(names: string[], steps: Step[], trial: ConnectionTest | undefined): TemplateResult {
  const heading =
    trial === undefined ? gettext("Testing the connection…") : trial.ok ? gettext("The connection works") : gettext("The connection does not work");
  return html`<section class="preview" role="status" aria-label=${gettext("Connection test")}>
    <h2>${heading} ${trial ? html`<span class="quiet">${trial.seconds.toFixed(1)} s</span>` : nothing}</h2>
    <ol class="trial">
      ${steps.map(stepOf)}
      ${names
        .filter((name) => !steps.some((step) => step.name === name))
        .map(
          (name, at) =>
            html`<li class="quiet"><span class="state" data-tone="quiet">${iconView(at === 0 ? "loader" : "circle-dashed")} ${name}</span> <span>${at === 0 ? "…" : nothing}</span></li>`,
        )}
    </ol>
  </section>`;
}

function stepOf({ name, ok, detail, fix }: Step): TemplateResult {
  const [tone, icon, word] =
    ok === null ? ["quiet", "circle-dashed", gettext("not tested")] : ok ? ["good", "circle-check", gettext("yes")] : ["bad", "circle-x", gettext("no")];
  return html`<li>
    <span class="state" data-tone=${tone}>${iconView(icon)} ${name}<span class="visually-hidden">: ${word}</span></span>
    <span>${detail} ${fix ? html`<b>${fix[0]!.toUpperCase() + fix.slice(1)}.</b>` : nothing}</span>
  </li>`;
}

/** The steps that a test takes by this protocol. */
export function stepsBy(protocol: string): ConnectionTestStep[] {
  const tls: ConnectionTestStep[] = ["stomps", "wss"].includes(protocol) ? ["tls"] : [];
  const upgrade: ConnectionTestStep[] = ["ws", "wss"].includes(protocol) ? ["websocket"] : [];
  return ["dns", "tcp", ...tls, ...upgrade, "login", "sync-queue", "target"];
}
