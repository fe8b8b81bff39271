/** What the server finds wrong with a text. It stands in the page, each at its place: `data-line`, `data-column`. */
export interface ServerDiagnostic {
  line: number;
  column: number;
  says: string;
}

/** The mistakes in the text of a field that the page tells of. */
export function diagnosticsOn(page: ParentNode, field: string): ServerDiagnostic[] {
  const found = page.querySelectorAll<HTMLElement>(`[data-line][data-field="${CSS.escape(field)}"]`);
  return [...found].map(({ dataset, textContent }) => ({
    line: Number(dataset.line),
    column: Number(dataset.column) || 1,
    says: textContent.trim(),
  }));
}
