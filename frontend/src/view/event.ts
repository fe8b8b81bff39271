/** Entries of the event log of the REST API, and the pages of their sources. */

import { consolePage } from "../pages.ts";

export interface LoggedEvent {
  id: string;
  at: string;
  kind: string;
  name: string;
  event: string;
  /** The code of an error; empty if there is none. */
  code: string;
  detail: string;
  facts: Record<string, unknown>;
}

export function aboutOf({ kind, name }: LoggedEvent): string {
  if (kind === "alerts") return consolePage("alerts/");
  return kind === "bridges" ? consolePage(`bridges/one?${new URLSearchParams({ name })}`) : consolePage("configuration/files");
}
