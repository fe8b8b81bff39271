import { parseLossless } from "../lossless-json.ts";

/** The attributes of a CloudEvent: of one in JSON, or of one whose attributes are headers. Undefined for others. */
export function eventOf(headers: Record<string, string>, json: unknown): [name: string, value: string][] | undefined {
  const inHeaders = Object.entries(headers).filter(([name]) => name.startsWith("ce-"));
  if (inHeaders.some(([name]) => name === "ce-specversion")) return inHeaders.map(([name, value]) => [name.slice(3), value]);
  if (!isRecord(json) || typeof json.specversion !== "string" || typeof json.type !== "string") return undefined;
  const { data: _, data_base64: __, ...attributes } = json;
  return Object.entries(attributes).map(([name, value]) => [name, typeof value === "string" ? value : JSON.stringify(value)]);
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** A text as JSON with a line for each member, numbers untouched; undefined when it is none. */
export function prettyJson(text: string): string | undefined {
  try {
    return JSON.stringify(parseLossless(text), null, 2);
  } catch {
    return undefined;
  }
}
