/** XML as indented text. It is not parsed, so invalid XML is shown unchanged. */

const PIECE = /<!--[\s\S]*?-->|<!\[CDATA\[[\s\S]*?\]\]>|<\?[\s\S]*?\?>|<[^>]+>|[^<]+/g;

export function looksLikeXml(text: string): boolean {
  return /^\s*<(\?xml|!--|!DOCTYPE|[A-Za-z_][\w.:-]*[\s/>])/.test(text) && text.trimEnd().endsWith(">");
}

/** A line for each element; one that holds nothing but text stays in its line. */
export function indented(text: string): string {
  const pieces = (text.match(PIECE) ?? []).map((piece) => piece.trim()).filter((piece) => piece !== "");
  const lines: string[] = [];
  let depth = 0;
  for (let at = 0; at < pieces.length; at += 1) {
    const piece = pieces[at]!;
    if (isClosing(piece)) depth = Math.max(0, depth - 1);
    const [inside = "", closing = ""] = pieces.slice(at + 1, at + 3);
    const short = isOpening(piece) && !inside.startsWith("<") && isClosing(closing);
    lines.push("  ".repeat(depth) + (short ? piece + inside + closing : piece));
    if (short) at += 2;
    else if (isOpening(piece)) depth += 1;
  }
  return lines.join("\n");
}

function isOpening(piece: string): boolean {
  return /^<[^!?/]/.test(piece) && !piece.endsWith("/>");
}

function isClosing(piece: string): boolean {
  return piece.startsWith("</");
}
