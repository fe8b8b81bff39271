/** Messages and jobs over the REST API. */

import type { JobOperation, JobState, PlannedOperation } from "../generated/tables.ts";
import { parseProblem } from "../live/problem.ts";
import { API, request, read } from "../live/requests.ts";
import { RequestRefused, type BrowsedMessage } from "../live/rest.ts";
import { queryOf, type Condition } from "./search.ts";

export type Message = BrowsedMessage & {
  type: string | null;
  correlation_id: string | null;
  reply_to: string | null;
  due?: string;
  /** In a cluster the broker that owns it. */
  broker?: string;
};

/** `stopped`: the search reached its limit, and `next` continues it. In a cluster `broker` is the one that was asked. */
export interface MessagePage {
  items: Message[];
  next: string | null;
  approx_total: number;
  scanned: number;
  stopped: boolean;
  broker?: string;
  /** The brokers of the cluster that do not answer. */
  not_shown: string[];
  /** The journal never gave the position that was asked for: this is the first page. */
  unknown_position?: boolean;
}

export interface Digest {
  matches: number;
  oldest: string | null;
  newest: string | null;
  by_origin: Record<string, number>;
  by_reason: Record<string, number>;
  scanned: number;
  stopped: boolean;
}

export interface Reason {
  code: string;
  sentence: string;
  facts: Record<string, unknown>;
}

/** `broker`: in a cluster the one that owns the message. */
export interface Explanation {
  reasons: Reason[];
  broker?: string;
}

/** An operation on many messages. `target` is a queue, or "origin" for dead letters. */
export interface JobRequest {
  op: PlannedOperation;
  source: string;
  target?: string;
  filter?: Condition;
  limit?: number;
  rate_per_s?: number;
  max_error_ratio?: number;
}

/** The plan of a job, valid for 15 minutes. */
export interface Plan {
  plan: string;
  matches: number;
  count: number;
  complete: boolean;
  by_origin: Record<string, number>;
  by_reason: Record<string, number>;
  oldest: string | null;
  newest: string | null;
  sample: Message[];
  warnings: string[];
}

export interface Job {
  id: string;
  op: JobOperation;
  state: JobState;
  source: string | null;
  target: string | null;
  filter: string | Condition | null;
  user: string;
  created: string;
  started: string | null;
  ended: string | null;
  total: number;
  processed: number;
  done: number;
  gone: number;
  unsettled: number;
  refused: number;
  rate_per_s: number | null;
  reason: string | null;
  can_undo: boolean;
  undo_of: string | null;
  undone_by: string | null;
}

/** A name as part of a path. What does not fit there (dots alone, slashes) is a parameter instead. */
function inQueue(queue: string, rest: string, query: URLSearchParams): string {
  query.set("queue", queue);
  return `queues/${rest}?${query}`;
}

export interface BrowseOptions {
  condition: Condition;
  order: "oldest" | "newest";
  after: string | null;
  limit: number;
}

/** A page of a queue; the first one where `after` is of another journal, or of other brokers. */
export async function browse(queue: string, { condition, order, after, limit }: BrowseOptions): Promise<MessagePage> {
  const query = queryOf(condition);
  query.set("limit", String(limit));
  if (order === "newest") query.set("order", order);
  if (after) query.set("after", after);
  try {
    return await read(inQueue(queue, "messages", query));
  } catch (fault) {
    if (!after || !isOf(fault, "query/after")) throw fault;
    query.delete("after");
    return { ...(await read<MessagePage>(inQueue(queue, "messages", query))), unknown_position: true };
  }
}

/** Whether a request was refused because of this parameter. */
function isOf(fault: unknown, pointer: string): boolean {
  return fault instanceof RequestRefused && (fault.problem.errors ?? []).some((error) => error.pointer === pointer);
}

export function digest(queue: string, { state: _, ...condition }: Condition): Promise<Digest> {
  return read(inQueue(queue, "digest", queryOf(condition)));
}

/** The messages that a topic retains; `from` is first, last, seq:… or time:…, and `next` is one of them. */
export function history(topic: string, from: string, limit: number): Promise<MessagePage> {
  return read(`topics/messages?${new URLSearchParams({ topic, from, limit: String(limit) })}`);
}

export function one(queue: string, id: string): Promise<Message> {
  return read(`${messagePath(id)}?${new URLSearchParams({ queue })}`);
}

export function explain(queue: string, id: string): Promise<Explanation> {
  return read(`${messagePath(id)}/why?${new URLSearchParams({ queue })}`);
}

export async function why(queue: string, id: string): Promise<Reason[]> {
  return (await explain(queue, id)).reasons;
}

export function remove(queue: string, id: string, reason = ""): Promise<void> {
  return request("DELETE", `${messagePath(id)}?${new URLSearchParams({ queue })}`, undefined, reason);
}

/** The address of a message's body, byte for byte. */
export function bodyAddress(queue: string, id: string): string {
  return `${API}${messagePath(id)}/body?${new URLSearchParams({ queue })}`;
}

export async function body(queue: string, id: string): Promise<Uint8Array> {
  const reply = await fetch(bodyAddress(queue, id));
  if (!reply.ok) throw new RequestRefused(parseProblem(await reply.text(), `HTTP ${reply.status} ${reply.statusText}`));
  return new Uint8Array(await reply.arrayBuffer());
}

function messagePath(id: string): string {
  return `messages/${encodeURIComponent(id)}`;
}

export function plan(jobRequest: JobRequest): Promise<Plan> {
  return request("POST", "jobs", { ...jobRequest, dry_run: true });
}

export function begin(planned: string, reason = ""): Promise<Job> {
  return request("POST", "jobs", { plan: planned }, reason);
}

/** Queues whose name contains `part`, largest depth first. */
export async function queueNames(part: string): Promise<string[]> {
  const query = new URLSearchParams({ limit: "20", fields: "name", sort: "-depth", ...(part && { q: part }) });
  const { items } = await read<{ items: { name: string }[] }>(`queues?${query}`);
  return items.map(({ name }) => name);
}

export function jobs(after: string | null, limit: number): Promise<{ items: Job[]; next: string | null; approx_total: number }> {
  return read(`jobs?${new URLSearchParams({ limit: String(limit), ...(after && { after }) })}`);
}

export function job(id: string): Promise<Job> {
  return read(`jobs/${encodeURIComponent(id)}`);
}

export function cancel(id: string): Promise<Job> {
  return request("POST", `jobs/${encodeURIComponent(id)}/cancel`);
}

export function undo(id: string): Promise<Job> {
  return request("POST", `jobs/${encodeURIComponent(id)}/undo`);
}

/** The text of an error, or of a missing response. */
export function faultOf(error: unknown, unreachable: string): string {
  return error instanceof RequestRefused ? error.message : unreachable;
}

/** The last bytes of a body. */
export async function tail(queue: string, id: string, size: number): Promise<Uint8Array> {
  const reply = await fetch(bodyAddress(queue, id), { headers: { range: `bytes=-${size}` } });
  if (!reply.ok) throw new RequestRefused(parseProblem(await reply.text(), `HTTP ${reply.status} ${reply.statusText}`));
  return new Uint8Array(await reply.arrayBuffer());
}

/** The rights of the current user on a queue: `send`, `browse`, `read`, `manage`, … */
export async function rightsTo(queue: string): Promise<string[]> {
  const { permissions } = await read<{ permissions: string[] }>(`queues?${new URLSearchParams({ queue })}`);
  return permissions;
}
