/** The only module that uses CodeMirror's view: an editor with line numbers, history, completion and error marks. */

import { autocompletion, closeBrackets, completionKeymap, type CompletionSource } from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
import { bracketMatching, HighlightStyle, syntaxHighlighting } from "@codemirror/language";
import { lintGutter, setDiagnostics, type Diagnostic } from "@codemirror/lint";
import { EditorState, type Extension } from "@codemirror/state";
import { drawSelection, EditorView, keymap, lineNumbers, tooltips } from "@codemirror/view";
import { tags } from "@lezer/highlight";
import type { ServerDiagnostic } from "./diagnostics.ts";

export interface EditorOptions {
  text: string;
  label: string;

  readOnly: boolean;
  /** The minimum number of visible lines. */
  lines: number;
  /** Show line numbers and error marks. */
  numbered: boolean;
  highlighting: Extension;
  complete: CompletionSource | undefined;
  changed: (text: string) => void;
}

export interface Editor {
  focus: () => void;
  show: (diagnostics: ServerDiagnostic[]) => void;
}

const colours = HighlightStyle.define([
  { tag: tags.propertyName, color: "var(--accent)" },
  { tag: tags.operator, color: "var(--dim)", fontWeight: "600" },
  { tag: [tags.string, tags.atom], color: "var(--good)" },
  { tag: tags.comment, color: "var(--dim)", fontStyle: "italic" },
  { tag: tags.keyword, color: "var(--warn)" },
]);

const look = EditorView.theme({
  "&": {
    font: "var(--small)/1.5 var(--mono)",
    color: "var(--text)",
    background: "var(--surface)",
    border: "1px solid var(--edge)",
    borderRadius: "var(--radius)",
  },
  "&.cm-focused": { outline: "2px solid var(--accent)", outlineOffset: "-1px" },
  ".cm-scroller": { fontFamily: "inherit", lineHeight: "inherit", maxHeight: "60vh", overflow: "auto" },
  ".cm-content": { padding: "0.3rem 0", caretColor: "var(--text)" },
  ".cm-cursor": { borderLeftColor: "var(--text)" },
  ".cm-gutters": { background: "var(--sunken)", color: "var(--dim)", border: "0", borderInlineEnd: "1px solid var(--line)" },
  "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground": {
    background: "color-mix(in oklch, var(--accent) 25%, transparent)",
  },
  "&.cm-focused .cm-matchingBracket": { background: "var(--chosen)" },
  ".cm-tooltip": {
    background: "var(--surface)",
    color: "var(--text)",
    border: "1px solid var(--line)",
    borderRadius: "var(--radius)",
    boxShadow: "var(--shadow)",
  },
  ".cm-tooltip.cm-tooltip-autocomplete > ul": { fontFamily: "inherit", maxHeight: "14rem" },
  ".cm-tooltip.cm-tooltip-autocomplete > ul > li": { padding: "0.2rem 0.6rem", minHeight: "24px" },
  ".cm-tooltip.cm-tooltip-autocomplete > ul > li[aria-selected]": { background: "var(--chosen)", color: "var(--text)" },
  ".cm-completionDetail": { color: "var(--dim)", fontStyle: "normal" },
  ".cm-diagnostic": { borderInlineStart: "3px solid var(--bad)", padding: "0.3rem 0.6rem", font: "var(--small) var(--sans)", maxWidth: "36rem" },
  ".cm-lintRange-error": { backgroundImage: "none", textDecoration: "underline wavy var(--bad)" },
  ".cm-lint-marker-error": { content: "normal", color: "var(--bad)" },
  ".cm-lint-marker-error::before": { content: "'■'" },
});

/**
 * Typing over a selection is done here: the browser would put styled elements in the place of what was coloured,
 * of which a strict policy of content complains.
 */
const typingOver = EditorView.domEventHandlers({
  beforeinput(event, view) {
    if (event.inputType !== "insertText" || !event.data || view.composing || view.state.selection.main.empty) return false;
    event.preventDefault();
    view.dispatch(view.state.replaceSelection(event.data), { userEvent: "input.type", scrollIntoView: true });
    return true;
  },
});

/** Create an editor in a shadow root. */
export function startEditor(root: ShadowRoot, options: EditorOptions): Editor {
  const view = new EditorView({
    root,
    parent: root,
    state: EditorState.create({ doc: options.text, extensions: extensionsOf(options) }),
  });
  return {
    focus: () => view.focus(),
    show: (diagnostics) =>
      view.dispatch(
        setDiagnostics(
          view.state,
          diagnostics.map((each) => diagnosticOf(view.state, each)),
        ),
      ),
  };
}

function extensionsOf(options: EditorOptions): Extension[] {
  return [
    look,
    syntaxHighlighting(colours),
    options.numbered ? [lineNumbers(), lintGutter()] : [],
    history(),
    drawSelection(),
    bracketMatching(),
    closeBrackets(),
    typingOver,
    EditorView.lineWrapping,
    EditorView.theme({ ".cm-content, .cm-gutter": { minHeight: `${options.lines * 1.5}em` } }),
    tooltips({ position: "absolute" }),
    autocompletion({ override: options.complete ? [options.complete] : [], icons: false }),
    // Tab moves the focus on, as in every other field.
    keymap.of([...completionKeymap, ...defaultKeymap, ...historyKeymap]),
    EditorState.readOnly.of(options.readOnly),
    EditorView.editable.of(!options.readOnly),
    EditorView.contentAttributes.of({ "aria-label": options.label, spellcheck: "false", autocapitalize: "none" }),
    options.highlighting,
    EditorView.updateListener.of((update) => {
      if (update.docChanged) options.changed(update.state.doc.toString());
    }),
  ];
}

/** The range from the position of the error to the end of the word. */
function diagnosticOf(state: EditorState, { line, column, message }: ServerDiagnostic): Diagnostic {
  const { from, to } = state.doc.line(Math.min(Math.max(line, 1), state.doc.lines));
  const start = Math.min(from + column - 1, to);
  const word = /^\S+/.exec(state.sliceDoc(start, to))?.[0].length ?? 0;
  return { from: start, to: start + word, severity: "error", message: message };
}
