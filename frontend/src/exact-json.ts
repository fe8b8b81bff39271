/** JSON whose numbers come out as they went in. */

// Beyond TypeScript's library: the source text of a number, and a value that prints as that text.
type ReviveWithSource = (key: string, value: unknown, context?: { source?: string }) => unknown;
const exactJson = JSON as typeof JSON & { rawJSON?: (source: string) => unknown };

/** Parses JSON without rounding: a number that JavaScript cannot hold stays the text it was. */
export function parseExact(text: string): unknown {
  const { rawJSON } = exactJson;
  if (rawJSON === undefined) return JSON.parse(text);
  const revive: ReviveWithSource = (_key, value, context) =>
    typeof value === "number" && context?.source !== undefined && String(value) !== context.source
      ? keepNumber(value, context.source, rawJSON)
      : value;
  return JSON.parse(text, revive as (key: string, value: unknown) => unknown);
}

/** 1.0 and 1e3 are held well enough as 1 and 1000; 9007199254740993 is not. */
function keepNumber(value: number, source: string, rawJSON: (source: string) => unknown): unknown {
  const digits = source.replace(/[eE].*$/, "").replace(/\D/g, "").replace(/^0+/, "");
  return digits.length > 15 ? rawJSON(source) : value;
}
