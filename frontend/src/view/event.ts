/** Entries of the event log of the REST API, and the pages of their sources. */

import { consolePage } from "../pages.ts";
import { sentenceOf, type Found } from "./alert.ts";

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

/** The detail of an event: what an alert has found, in the language of the page; else as the broker reports it. */
export function detailOf({ kind, detail, facts }: LoggedEvent): string {
  if (kind !== "alerts" || !("condition" in facts)) return detail;
  return sentenceOf({ ...(facts as unknown as Omit<Found, "facts" | "detail">), facts: facts.found as Found["facts"], detail });
}

export function aboutOf({ kind, name, event }: LoggedEvent): string {
  if (kind === "broker") return consolePage("settings/");
  if (kind === "alerts") return consolePage("alerts/");
  if (kind === "mirrors" || kind === "cluster") return consolePage(`${kind}/`);
  // A host, with its port, may be called by many callbacks.
  if (kind === "callbacks") return consolePage(name.includes(":") ? "callbacks/" : `callbacks/one?${new URLSearchParams({ name })}`);
  // These events are of libraries, which many reflexes may use.
  if (kind === "reflexes")
    return consolePage(
      event === "failed" || event === "recovered" ? `reflexes/?${new URLSearchParams({ filter: name })}` : `reflexes/one?${new URLSearchParams({ name })}`,
    );
  return kind === "bridges" ? consolePage(`bridges/one?${new URLSearchParams({ name })}`) : consolePage("configuration/files");
}
