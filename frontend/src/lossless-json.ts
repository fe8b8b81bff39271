/** JSON that keeps the text of its numbers. */

// Beyond TypeScript's library: the source text of a number, and a value that prints as that text.
type ReviveWithSource = (key: string, value: unknown, context?: { source?: string }) => unknown;
interface RawJson {
  rawJSON: string;
}
const exactJson = JSON as typeof JSON & {
  rawJSON?: (source: string) => RawJson;
  isRawJSON?: (value: unknown) => value is RawJson;
};

/** The member of API responses with the JSON body of a message. */
const BODY = "body";
/** So many digits a number of JavaScript always holds. */
const HELD_DIGITS = 15;

/** Parses JSON of others: a number that JavaScript would write in another way, as 12.00 or 1e3, stays the text it was. */
export function parseLossless(text: string): unknown {
  const { rawJSON } = exactJson;
  if (rawJSON === undefined) return JSON.parse(text);
  const revive: ReviveWithSource = (_key, value, context) =>
    typeof value === "number" && context?.source !== undefined && String(value) !== context.source ? rawJSON(context.source) : value;
  return JSON.parse(text, revive as (key: string, value: unknown) => unknown);
}

/** Parses an answer of the API: outside of bodies, numbers are numbers of JavaScript, as far as it holds them. */
export function parseAnswer(text: string): unknown {
  return withNumbers(parseLossless(text));
}

function withNumbers(value: unknown): unknown {
  if (exactJson.isRawJSON?.(value)) return isHeld(value.rawJSON) ? Number(value.rawJSON) : value;
  if (Array.isArray(value)) return value.map(withNumbers);
  if (value === null || typeof value !== "object") return value;
  const members = value as Record<string, unknown>;
  for (const key of Object.keys(members)) if (key !== BODY) members[key] = withNumbers(members[key]);
  return members;
}

function isHeld(source: string): boolean {
  return (
    source
      .replace(/[eE].*$/, "")
      .replace(/\D/g, "")
      .replace(/^0+/, "").length <= HELD_DIGITS
  );
}
