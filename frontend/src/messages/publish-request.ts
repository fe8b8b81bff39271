/** Publishing one or many messages: placeholders, requests and results. */

import { request } from "../live/requests.ts";
import { gettext } from "../gettext.ts";
import type { Draft } from "./draft.ts";

/** Messages of one request, and bytes of their bodies. */
const CHUNK = 500;
const CHUNK_BYTES = 4 * 1024 * 1024;
/** A paced run sends so often. */
const BEAT_MS = 200;
export const MOST = 10_000;
/** A longer body does not fit into a request that has several. */
export const LARGEST = 5 * 1024 * 1024;

export interface Sent {
  ids: string[];
  errors: string[];
  duplicates: number;
}

/** `bytes` replace the text of the draft when a file is sent. */
export interface Run {
  draft: Draft;
  bytes: Uint8Array | undefined;
  count: number;
  rate: number | undefined;
  fill: boolean;
}

const FIELD = /\{\{(n|uuid|now)\}\}/g;

export function hasFields(text: string): boolean {
  return new RegExp(FIELD).test(text);
}

/** `{{n}}`, `{{uuid}}` and `{{now}}` of the n-th message. */
function filled(text: string, n: number): string {
  return text.replace(FIELD, (_, name: string) => (name === "n" ? String(n) : name === "uuid" ? crypto.randomUUID() : new Date().toISOString()));
}

/** Send all messages, reporting progress. Rejects with the first refusal of a whole request. */
export async function send(run: Run, report: (sent: Sent) => void, stopped: AbortSignal): Promise<Sent> {
  const sent: Sent = { ids: [], errors: [], duplicates: 0 };
  const size = run.bytes?.length ?? run.draft.body.length;
  const most = Math.max(1, Math.min(CHUNK, Math.floor(CHUNK_BYTES / Math.max(1, size))));
  const began = performance.now();
  for (let n = 0; n < run.count && !stopped.aborted; ) {
    const due = run.rate ? Math.floor((run.rate * (performance.now() - began)) / 1000) + 1 - n : most;
    const take = Math.min(most, run.count - n, due);
    if (take < 1) {
      await new Promise((resolve) => setTimeout(resolve, BEAT_MS));
      continue;
    }
    await sendChunk(run, n + 1, take, sent);
    n += take;
    report(sent);
  }
  return sent;
}

async function sendChunk(run: Run, first: number, take: number, sent: Sent): Promise<void> {
  const [, kind, ...rest] = run.draft.destination.split("/");
  const items = Array.from({ length: take }, (_, at) => item(run, first + at));
  const query = new URLSearchParams({ [kind!]: rest.join("/") });
  const { results } = await request<{ results: { i: number; id?: string; duplicate?: boolean; error?: { detail: string } }[] }>(
    "POST",
    `${kind}s/messages/batch?${query}`,
    items,
  );
  for (const { id, duplicate, error } of results) {
    if (id !== undefined) sent.ids.push(id);
    if (duplicate) sent.duplicates += 1;
    if (error) sent.errors.push(error.detail);
  }
}

/** The body is sent as bytes, so that it arrives unchanged. */
function item({ draft, bytes, fill }: Run, n: number): Record<string, unknown> {
  const text = (value: string) => (fill ? filled(value, n) : value);
  return {
    body_base64: base64(bytes ?? new TextEncoder().encode(text(draft.body))),
    ...(draft.contentType && { content_type: draft.contentType }),
    headers: Object.fromEntries(Object.entries(draft.headers).map(([name, value]) => [name, text(value)])),
    persistent: draft.persistent,
    priority: draft.priority,
    ...(draft.delay_s && { delay_s: draft.delay_s }),
    ...(draft.expires_s && { expires_s: draft.expires_s }),
    ...(draft.reply_to && { reply_to: draft.reply_to }),
    ...(draft.correlation_id && { correlation_id: text(draft.correlation_id) }),
    ...(draft.type && { type: draft.type }),
    ...(draft.dedup_id && { dedup_id: text(draft.dedup_id) }),
  };
}

function base64(bytes: Uint8Array): string {
  let text = "";
  for (let at = 0; at < bytes.length; at += 8192) text += String.fromCharCode(...bytes.subarray(at, at + 8192));
  return btoa(text);
}

/** Why a text does not match its content type once it is filled in; "" if it does, or if that is unknown. */
export function complaintOf(body: string, contentType: string): string {
  if (!/[/+]json\b/.test(contentType) || body === "") return "";
  try {
    JSON.parse(filled(body, 1));
    return "";
  } catch (error) {
    return gettext("This is not valid JSON: {why}", { why: (error as Error).message });
  }
}
