/** The results of a job: a line of JSON for each message. */

import { API } from "../live/requests.ts";

export interface Problem {
  id: string;
  status: string;
  reason: string;
}

interface Line {
  id?: string;
  position?: number;
  status: string;
  reason?: string;
  detail?: string;
}

const MOST = 100;
/** So much of a file of results is looked through; all of it can be downloaded. */
const MAX_BYTES = 16 * 1024 * 1024;

/** The first messages that were not processed. */
export async function problemsOf(job: string): Promise<Problem[]> {
  const reply = await fetch(`${API}jobs/${encodeURIComponent(job)}/results`);
  if (!reply.ok || reply.body === null) return [];
  const reader = reply.body.pipeThrough(new TextDecoderStream()).getReader();
  const found: Problem[] = [];
  let rest = "";
  for (let seen = 0; seen < MAX_BYTES && found.length < MOST; ) {
    const { done, value } = await reader.read();
    if (done) break;
    seen += value.length;
    const lines = (rest + value).split("\n");
    rest = lines.pop()!;
    for (const line of lines) {
      if (line.includes('"done"') && (JSON.parse(line) as Line).status === "done") continue;
      const { id, position, status, reason, detail } = JSON.parse(line) as Line;
      found.push({ id: id ?? `#${position ?? ""}`, status, reason: reason ?? detail ?? "" });
    }
  }
  await reader.cancel();
  return found.slice(0, MOST);
}
