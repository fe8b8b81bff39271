/** An error in a text that the server found. The page contains them with `data-line` and `data-column`. */
export interface ServerDiagnostic {
  line: number;
  column: number;
  message: string;
}

/** The errors of a field that the page contains. */
export function diagnosticsOn(page: ParentNode, field: string): ServerDiagnostic[] {
  const found = page.querySelectorAll<HTMLElement>(`[data-line][data-field="${CSS.escape(field)}"]`);
  return [...found].map(({ dataset, textContent }) => ({
    line: Number(dataset.line),
    column: Number(dataset.column) || 1,
    message: textContent.trim(),
  }));
}
