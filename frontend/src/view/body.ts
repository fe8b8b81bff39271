import { parseLossless } from "../lossless-json.ts";
import type { BrowsedMessage } from "../live/rest.ts";
import { looksLikeXml } from "./xml.ts";

/** The views of a message's body; only those that apply. */
export interface Body {
  /** Parsed JSON: by content type, or of a text that looks like JSON. */
  json?: unknown;
  /** The body as text, when it is text. */
  text?: string;
  /** Whether that text is XML. */
  xml?: boolean;
  /** Names and values of a form. */
  form?: [name: string, value: string][];
  bytes: Uint8Array;
  /** Whether `bytes` are the original ones: not if the body was cut, or parsed. */
  exact: boolean;
}

/** Detect the views by content type and content; content that does not parse is text or bytes. */
export function bodyOf(message: BrowsedMessage): Body {
  const body = given(message);
  return { ...body, exact: body.bytes.length === message.size };
}

function given(message: BrowsedMessage): Body {
  const type = message.content_type;
  if (message.body_base64 !== undefined) return sniffBytes(fromBase64(message.body_base64), type);
  if (typeof message.body === "string" && (message.truncated || !isJson(type))) return sniffText(message.body, type);
  if (message.body === undefined) return sniffText("", type);
  const text = JSON.stringify(message.body);
  return { json: message.body, text, bytes: new TextEncoder().encode(text), exact: false };
}

function isJson(contentType: string | null): boolean {
  return /[/+]json\b/i.test(contentType ?? "");
}

function sniffText(text: string, contentType: string | null): Body {
  const body: Body = { text, bytes: new TextEncoder().encode(text), exact: true };
  if (/^\s*[[{]/.test(text)) {
    try {
      body.json = parseLossless(text);
    } catch {
      // It only looked like JSON.
    }
  } else if (looksLikeXml(text)) {
    body.xml = true;
  } else if (contentType?.startsWith("application/x-www-form-urlencoded")) {
    body.form = [...new URLSearchParams(text)];
  }
  return body;
}

export function sniffBytes(bytes: Uint8Array, contentType: string | null): Body {
  try {
    const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
    // Control characters mean binary data that happens to be valid UTF-8.
    // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
    if (!/[\u0000-\u0008\u000e-\u001f]/.test(text)) return { ...sniffText(text, contentType), bytes };
  } catch {
    // Not UTF-8: bytes it is.
  }
  return { bytes, exact: true };
}

function fromBase64(text: string): Uint8Array {
  return Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
}

/** One line for the list. */
export function preview(body: Body): string {
  if (body.text !== undefined) return body.text.slice(0, 160).replace(/\s+/g, " ");
  return [...body.bytes.subarray(0, 24)].map(hexByte).join(" ");
}

/** The compression of bytes, detected from their first ones, since a content-encoding may be wrong. */
export function compressionOf(bytes: Uint8Array): "gzip" | "deflate" | undefined {
  if (bytes[0] === 0x1f && bytes[1] === 0x8b) return "gzip";
  if (bytes[0] === 0x78 && (bytes[0] * 256 + bytes[1]!) % 31 === 0) return "deflate";
  return undefined;
}

/** Opens compressed bytes, up to `most` of what is in them. Rejects when they are damaged. */
export async function opened(bytes: Uint8Array, how: "gzip" | "deflate", most: number): Promise<Uint8Array> {
  const reader = new Blob([bytes as BlobPart]).stream().pipeThrough(new DecompressionStream(how)).getReader();
  const found: Uint8Array[] = [];
  let size = 0;
  while (size < most) {
    const { done, value } = await reader.read();
    if (done) break;
    found.push(value);
    size += value.length;
  }
  await reader.cancel();
  return new Uint8Array(await new Blob(found as BlobPart[]).arrayBuffer()).subarray(0, most);
}

const SHOWN_HEX_BYTES = 16 * 1024;

/** Offset, sixteen bytes, and their ASCII, a line for each sixteen; long bodies end with a note. */
export function hexDump(bytes: Uint8Array, from = 0): string {
  const lines: string[] = [];
  for (let offset = 0; offset < Math.min(bytes.length, SHOWN_HEX_BYTES); offset += 16) {
    lines.push(hexLine(bytes.subarray(offset, offset + 16), from + offset));
  }
  if (bytes.length > SHOWN_HEX_BYTES) lines.push(`… ${bytes.length - SHOWN_HEX_BYTES} bytes more`);
  return lines.join("\n");
}

function hexLine(bytes: Uint8Array, offset: number): string {
  const pairs = [...bytes].map(hexByte);
  const columns = `${pairs.slice(0, 8).join(" ").padEnd(23)}  ${pairs.slice(8).join(" ").padEnd(23)}`;
  const ascii = [...bytes].map((byte) => (byte >= 0x20 && byte < 0x7f ? String.fromCharCode(byte) : ".")).join("");
  return `${offset.toString(16).padStart(6, "0")}  ${columns}  ${ascii}`;
}

function hexByte(byte: number): string {
  return byte.toString(16).padStart(2, "0");
}
