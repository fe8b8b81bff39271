/** Entries of the event log as REST tells them, and the pages that they are about. */

import { consolePage } from "../pages.ts";

export interface LoggedEvent {
  id: string;
  at: string;
  kind: string;
  name: string;
  event: string;
  /** Of a trouble; empty where there is none. */
  code: string;
  detail: string;
  facts: Record<string, unknown>;
}

export function aboutOf({ kind, name }: LoggedEvent): string {
  if (kind === "alerts") return consolePage("alerts/");
  return kind === "bridges" ? consolePage(`bridges/one?${new URLSearchParams({ name })}`) : consolePage("configuration/files");
}
