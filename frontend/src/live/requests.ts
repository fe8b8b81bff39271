/** Requests of the public API with the cookie of who looks at the page: what a program can do, and no more. */

import { parseExact } from "../exact-json.ts";
import { parseProblem } from "./problem.ts";
import { RequestRefused } from "./rest.ts";

const { basePath = "/" } = document.body.dataset;
const API = `${location.origin}${basePath}api/v1/`;

export type Query = Record<string, string | number | boolean | undefined | null>;

/** `address("connections", { limit: 20, user: "" })`; what is empty is left out. */
export function address(path: string, query: Query = {}): string {
  const said = Object.entries(query).filter(([, value]) => value !== undefined && value !== null && value !== "");
  const text = new URLSearchParams(said.map(([name, value]) => [name, String(value)])).toString();
  return path + (text && `?${text}`);
}

/** What GET answers. Rejects with RequestRefused where the broker says no, with a TypeError where it is not reached. */
export function read<Answer>(path: string, query: Query = {}): Promise<Answer> {
  return asked<Answer>("GET", address(path, query));
}

/** An act, with the reason that is kept in the audit log. */
export function act<Answer = unknown>(
  method: "POST" | "PUT" | "PATCH" | "DELETE",
  path: string,
  body?: unknown,
  reason = "",
): Promise<Answer> {
  return asked<Answer>(method, path, body, reason);
}

async function asked<Answer>(method: string, path: string, body?: unknown, reason = ""): Promise<Answer> {
  const headers: Record<string, string> = { accept: "application/json" };
  if (body !== undefined) headers["content-type"] = "application/json";
  if (reason) headers["mom-reason"] = encodeURIComponent(reason);
  if (method !== "GET") headers["x-csrftoken"] = csrfToken();
  const reply = await fetch(API + path, { method, headers, body: body === undefined ? null : JSON.stringify(body) });
  const text = await reply.text();
  if (!reply.ok) throw new RequestRefused(parseProblem(text, `HTTP ${reply.status} ${reply.statusText}`));
  return (text ? parseExact(text) : null) as Answer;
}

/** That of the forms on the page: what Django's half of the API wants beside the cookie. */
export function csrfToken(): string {
  return document.querySelector<HTMLInputElement>("[name=csrfmiddlewaretoken]")?.value ?? "";
}
