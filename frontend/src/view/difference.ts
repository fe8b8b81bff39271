/** Two texts line by line. */

export interface Line {
  mark: "same" | "gone" | "new";
  text: string;
}

/** Comparisons of lines that are made at most; texts that differ more are shown one behind the other. */
const MOST = 4_000_000;

/** The lines of `before`, of `after`, or of both; common lines keep their order. */
export function difference(before: string, after: string): Line[] {
  const a = before.split("\n");
  const b = after.split("\n");
  let start = 0;
  while (start < a.length && start < b.length && a[start] === b[start]) start += 1;
  let end = 0;
  while (end < a.length - start && end < b.length - start && a.at(-1 - end) === b.at(-1 - end)) end += 1;
  const same = (text: string): Line => ({ mark: "same", text });
  return [...a.slice(0, start).map(same), ...between(a.slice(start, a.length - end), b.slice(start, b.length - end)), ...a.slice(a.length - end).map(same)];
}

function between(a: string[], b: string[]): Line[] {
  if (a.length * b.length > MOST) return [...a.map(gone), ...b.map(added)];
  // lengths[i][j]: lines that a from i on and b from j on have in common
  const lengths = Array.from({ length: a.length + 1 }, () => new Uint32Array(b.length + 1));
  for (let i = a.length - 1; i >= 0; i -= 1) {
    for (let j = b.length - 1; j >= 0; j -= 1) {
      lengths[i]![j] = a[i] === b[j] ? lengths[i + 1]![j + 1]! + 1 : Math.max(lengths[i + 1]![j]!, lengths[i]![j + 1]!);
    }
  }
  const lines: Line[] = [];
  let [i, j] = [0, 0];
  while (i < a.length && j < b.length) {
    if (a[i] === b[j]) {
      lines.push({ mark: "same", text: a[i]! });
      i += 1;
      j += 1;
    } else if (lengths[i + 1]![j]! >= lengths[i]![j + 1]!) {
      lines.push(gone(a[i]!));
      i += 1;
    } else {
      lines.push(added(b[j]!));
      j += 1;
    }
  }
  return [...lines, ...a.slice(i).map(gone), ...b.slice(j).map(added)];
}

function gone(text: string): Line {
  return { mark: "gone", text };
}

function added(text: string): Line {
  return { mark: "new", text };
}
