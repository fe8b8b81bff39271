/** Actions on all messages of queues, each a job: purge and export. */

import { html, nothing, type TemplateResult } from "lit";
import { runDelayed } from "../delayed-action.ts";
import { gettext, ngettext } from "../gettext.ts";
import { request } from "../live/requests.ts";
import { consolePage } from "../pages.ts";
import { count, duration } from "../view/format.ts";
import { each, objects, report, confirmed, typedFor, type Operation } from "./operation.ts";
import type { DestinationStats } from "./stats.ts";

interface Plan {
  plan: string;
  matches: number;
  oldest: string | null;
}

async function plans(operation: Operation, op: "purge" | "export", rows: DestinationStats[]): Promise<Map<string, Plan>> {
  const found = new Map<string, Plan>();
  const { failures } = await each(operation, rows, async (row) => {
    found.set(row.name, await request<Plan>("POST", "jobs", { op, source: row.name, dry_run: true }));
  });
  if (found.size === 0 && failures.length > 0) throw new Error(`${failures[0]!.name}: ${failures[0]!.why}`);
  return found;
}

function previewText(found: Map<string, Plan>, rows: DestinationStats[]): TemplateResult {
  const all = [...found.values()];
  const messages = all.reduce((sum, plan) => sum + plan.matches, 0);
  const oldest = all.flatMap((plan) => (plan.oldest ? [plan.oldest] : [])).sort()[0];
  const unsettled = rows.reduce((sum, row) => sum + row.unsettled, 0);
  const age = oldest && duration(Math.max(0, (Date.now() - Date.parse(oldest)) / 1000));
  return html`${ngettext("{count} message", "{count} messages", messages)}${age ? html`, ${gettext("the oldest is {age} old", { age })}` : nothing}.
  ${unsettled ? ngettext("{count} is unsettled and is kept.", "{count} are unsettled and are kept.", unsettled) : nothing}
  ${found.size < rows.length ? gettext("Failed for {count}.", { count: count(rows.length - found.size) }) : nothing}`;
}

export async function purge(operation: Operation): Promise<void> {
  let found = new Map<string, Plan>();
  const on = objects(operation);
  const chosen = await confirmed(operation, {
    title: gettext("Purge {on}", { on }),
    effect: gettext("All ready messages are deleted permanently. Unsettled messages stay with their consumers."),
    button: gettext("Purge"),
    danger: true,
    typed: typedFor(operation),
    preview: async (rows) => {
      found = await plans(operation, "purge", rows);
      return previewText(found, rows);
    },
  });
  if (chosen === null) return;
  const messages = [...found.values()].reduce((sum, plan) => sum + plan.matches, 0);
  runDelayed(ngettext("{count} message is purged in ten seconds.", "{count} messages are purged in ten seconds.", messages), { isSingle: false }, () =>
    run(operation, found, chosen.reason, ngettext("{count} queue is being purged.", "{count} queues are being purged.", found.size)),
  );
}

export async function exported(operation: Operation): Promise<void> {
  let found = new Map<string, Plan>();
  const chosen = await confirmed(operation, {
    title: gettext("Export {on}", { on: objects(operation) }),
    effect: gettext("All ready messages are written to one file of JSON lines per queue. They also stay in the queue."),
    button: gettext("Export"),
    preview: async (rows) => {
      found = await plans(operation, "export", rows);
      return previewText(found, rows);
    },
  });
  if (chosen !== null) {
    await run(operation, found, chosen.reason, ngettext("{count} queue is being exported.", "{count} queues are being exported.", found.size));
  }
}

async function run(operation: Operation, found: Map<string, Plan>, reason: string, text: string): Promise<void> {
  const { done, failures } = await each(
    operation,
    [...found].map(([name, { plan }]) => ({ name, plan })),
    ({ plan }) => request("POST", "jobs", { plan }, reason),
  );
  operation.done();
  report(done.length, failures, { text, link: { href: consolePage("jobs/"), text: gettext("Jobs") } });
}
