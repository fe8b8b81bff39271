/** Text as literals of the languages of example code. */

/** A string of JSON, which is one of Python, JavaScript and Java, too. */
export function quoted(text: string): string {
  return JSON.stringify(text);
}

/** Bare when harmless, else in single quotes: a name may hold anything. */
export function shell(text: string): string {
  return /^[\w./:@%+,=-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}
