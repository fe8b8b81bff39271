/** A refusal as the broker words it everywhere: RFC 9457, `application/problem+json`. */
export interface Problem {
  title: string;
  detail: string;
  status?: number;
  trace_id?: string;
  errors?: { pointer: string; detail: string }[];
}

/** The problem in a body, or one made of `fallback` when the body is no problem document. */
export function parseProblem(body: string, fallback: string): Problem {
  try {
    const found = JSON.parse(body) as Partial<Problem>;
    if (typeof found.title === "string") {
      return { ...found, title: found.title, detail: found.detail ?? "" };
    }
  } catch {
    // Not JSON: the response of a proxy or another server. Show its text.
  }
  return { title: fallback, detail: body.slice(0, 500) };
}
