/** Requests of the public API with the session cookie of the user. */

import { parseAnswer } from "../lossless-json.ts";
import { parseProblem } from "./problem.ts";
import { RequestRefused, Unreachable } from "./rest.ts";

const { basePath = "/" } = document.body.dataset;
/** Where the API is. */
export const API = `${location.origin}${basePath}api/v1/`;

/** The size up to which browsers complete requests of closed pages; their limit for all is 64 KiB. */
const MAX_KEPT_ALIVE = 16_000;

/** The document's event when a request was answered with 401: the cookie is no longer good. */
export const SIGNED_OUT = "mom:signed-out";

export type Query = Record<string, string | number | boolean | undefined | null>;

/** `address("connections", { limit: 20, user: "" })`; what is empty is left out. */
export function address(path: string, query: Query = {}): string {
  const parameters = Object.entries(query).filter(([, value]) => value !== undefined && value !== null && value !== "");
  const text = new URLSearchParams(parameters.map(([name, value]) => [name, String(value)])).toString();
  return path + (text && `?${text}`);
}

/** The response of a GET. Rejects with RequestRefused if the broker refuses it, with Unreachable if there is no response. */
export function read<Answer>(path: string, query: Query = {}): Promise<Answer> {
  return asked<Answer>("GET", address(path, query));
}

/** Like `read`, with the version, for `match` of a request. */
export async function readVersion<Answer>(path: string): Promise<{ body: Answer; version: string | null }> {
  const reply = await answered("GET", path);
  return { body: parseAnswer(await reply.text()) as Answer, version: reply.headers.get("etag") };
}

/** A request that changes something, with a reason for the audit log; `match` is the version that it replaces, or "*". */
export function request<Answer = unknown>(method: "POST" | "PUT" | "PATCH" | "DELETE", path: string, body?: unknown, reason = "", match = ""): Promise<Answer> {
  return asked<Answer>(method, path, body, reason, match);
}

/** The text of an error for a toast or a notice. */
export function errorText(fault: unknown): string {
  return fault instanceof Error ? fault.message : String(fault);
}

async function asked<Answer>(...request: Parameters<typeof answered>): Promise<Answer> {
  const text = await (await answered(...request)).text();
  return (text ? parseAnswer(text) : null) as Answer;
}

async function answered(method: string, path: string, body?: unknown, reason = "", match = ""): Promise<Response> {
  const headers: Record<string, string> = { accept: "application/json" };
  if (body !== undefined) headers["content-type"] = "application/json";
  if (reason) headers["mom-reason"] = encodeURIComponent(reason);
  if (match) headers["if-match"] = match;
  if (method !== "GET") headers["x-csrftoken"] = csrfToken();
  const sent = body === undefined ? null : JSON.stringify(body);
  // A request that is sent while its page is left is completed, if it is short enough for that.
  const keepalive = method !== "GET" && (sent?.length ?? 0) < MAX_KEPT_ALIVE;
  const reply = await fetch(API + path, { method, headers, keepalive, body: sent }).catch((): never => {
    throw new Unreachable();
  });
  if (reply.status === 401) document.dispatchEvent(new Event(SIGNED_OUT));
  if (!reply.ok) {
    const problem = parseProblem(await reply.text(), `HTTP ${reply.status} ${reply.statusText}`);
    throw new RequestRefused({ status: reply.status, ...problem });
  }
  return reply;
}

/** The CSRF token of the page's forms, which Django's part of the API requires. */
export function csrfToken(): string {
  return document.querySelector<HTMLInputElement>("[name=csrfmiddlewaretoken]")?.value ?? "";
}

/** Whether the session is still valid. Assumed if the server cannot be reached. */
export async function isSignedIn(): Promise<boolean> {
  try {
    await answered("GET", "stats");
    return true;
  } catch (fault) {
    return !(fault instanceof RequestRefused && [401, 403].includes(fault.problem.status ?? 0));
  }
}
