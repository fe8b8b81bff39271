"""Output formats: tables for terminals, TSV for pipes, JSON for programs."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from broker_app.base import durations, states

TABLE, TSV, JSON, YAML, NDJSON, ID = "table", "tsv", "json", "yaml", "ndjson", "id"
FORMATS = (TABLE, TSV, JSON, YAML, NDJSON, ID)

Row = Mapping[str, Any]

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
#: longer words may be shortened to this many characters where a table does not fit
_LONG_WORD = 24
#: blanks between the columns of a table
_GAP = 2
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")
#: columns whose words have a colour, and the colours
_STATES = frozenset(("state", "health", "severity", "result", "outcome"))
_COLOURS = {"good": "green", "quiet": "dim", "warn": "yellow", "bad": "red", "accent": "cyan"}
#: of a word that several things have as a state, that of the first family
_STYLES = {
    name: _COLOURS[state.sign.tone]
    for _subject, family in reversed(states.FAMILIES.values())
    for name, state in family.items()
}
_ESCAPES = {"\t": "\\t", "\n": "\\n", "\r": "\\r", "\\": "\\\\"}


class Output:
    """Writes rows in one format. The first column identifies a row."""

    def __init__(self, form: str | None = None, *, header: bool = True, quiet: bool = False) -> None:
        at_terminal = sys.stdout.isatty()
        self.form = form or (TABLE if at_terminal else TSV)
        #: at a terminal, where no format was requested
        self.brief = form is None and at_terminal
        self.quiet = quiet
        self._header = header

    def say(self, sentence: str) -> None:
        """Print a message for the user to stderr, unless -q."""
        if not self.quiet:
            print(sentence, file=sys.stderr, flush=True)

    def warn(self, sentence: str) -> None:
        """Print a warning to stderr, also with -q; in red at a terminal."""
        from rich.console import Console
        from rich.text import Text

        Console(stderr=True, soft_wrap=True).print(Text(sentence, style="bold red"))

    def rows(self, columns: Sequence[str], rows: Iterable[Row], *, whole: bool = False) -> None:
        """Print a list of rows. JSON shows all their members if `whole`, else only the columns."""
        chosen = [dict(row) if whole else {name: row.get(name) for name in columns} for row in rows]
        match self.form:
            case "json":
                _line(json.dumps(chosen, indent=2, ensure_ascii=False, default=str))
            case "yaml":
                _line(_yaml(chosen))
            case "ndjson":
                for row in chosen:
                    _line(json.dumps(row, ensure_ascii=False, default=str))
            case "id":
                for row in chosen:
                    _line(_cell(row[columns[0]]))
            case "table":
                self._table(columns, chosen)
            case _:
                if self._header:
                    _line("\t".join(columns))
                for row in chosen:
                    _line("\t".join(_cell(row.get(name)) for name in columns))

    def row(self, columns: Sequence[str], row: Row) -> None:
        """Print one row of a stream at once: a line of TSV without header, or a JSON object."""
        match self.form:
            case "json" | "ndjson":
                _line(json.dumps(dict(row), ensure_ascii=False, default=str))
            case "yaml":
                _line(_yaml([dict(row)]))
            case "id":
                _line(_cell(row.get(columns[0])))
            case _:
                _line("\t".join(_cell(row.get(name)) for name in columns))

    def facts(self, facts: Row) -> None:
        """Print one object: a line for each member, or JSON."""
        match self.form:
            case "json":
                _line(json.dumps(dict(facts), indent=2, ensure_ascii=False, default=str))
            case "yaml":
                _line(_yaml(dict(facts)))
            case "ndjson":
                _line(json.dumps(dict(facts), ensure_ascii=False, default=str))
            case "id":
                _line(_cell(next(iter(facts.values()))))
            case "table":
                width = max(map(len, facts))
                for name, value in facts.items():
                    _line(f"{name:<{width}}  {_cell(value)}")
            case _:
                for name, value in facts.items():
                    _line(f"{name}\t{_cell(value)}")

    def done(self, sentence: str, facts: Row) -> None:
        """Print the result of a change: a sentence at a terminal, the object in other formats."""
        if self.brief:
            self.say(sentence)
        else:
            self.facts(facts)

    def _table(self, columns: Sequence[str], rows: list[dict[str, object]]) -> None:
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        console = Console()
        if self.brief:
            rows = [{name: _aged(value) for name, value in row.items()} for row in rows]
        widths = _fitting(columns, rows, console.width)
        table = Table(box=None, show_header=self._header, header_style="bold", pad_edge=False)
        for name in widths:
            number = all(isinstance(row.get(name), int | float) for row in rows) and bool(rows)
            table.add_column(
                name.replace("_", " "),
                justify="right" if number else "left",
                width=widths[name],
                overflow="fold" if name == columns[0] else "ellipsis",
            )
        for row in rows:
            table.add_row(*[Text(_cell(row.get(name)), style=_style(name, row.get(name))) for name in widths])
        console.print(table)
        if len(widths) < len(columns):
            hidden = ", ".join(name for name in columns if name not in widths)
            self.say(f"hidden for lack of width: {hidden} (use a wider terminal, or -o tsv)")


def _fitting(columns: Sequence[str], rows: Sequence[Row], width: int) -> dict[str, int]:
    """The columns that fit without breaking a word, dropped from the end, and the width of each. Words of
    columns other than the first may be shortened to `_LONG_WORD` characters."""
    least, most = {}, {}
    for name in columns:
        cells = [name.replace("_", " "), *(_cell(row.get(name)) for row in rows)]
        longest = max(len(word) for cell in cells for word in cell.split() or [""])
        least[name] = longest if name == columns[0] else min(longest, _LONG_WORD)
        most[name] = max(map(len, cells))
    shown = list(columns)
    while len(shown) > 1 and sum(least[name] + _GAP for name in shown) - _GAP > width:
        shown.pop()
    left = width - sum(least[name] + _GAP for name in shown) + _GAP
    widths = {}
    for name in shown:
        more = max(0, min(most[name] - least[name], left))
        widths[name] = least[name] + more
        left -= more
    return widths


def _aged(value: Any) -> Any:
    """A time as its age, or as how far it is ahead; all else as it is."""
    if not isinstance(value, str) or not _TIME.fullmatch(value):
        return value
    past_s = (datetime.now(UTC) - datetime.fromisoformat(value)).total_seconds()
    return f"{durations.in_words(past_s)} ago" if past_s >= 0 else f"in {durations.in_words(-past_s)}"


def _style(column: str, value: Any) -> str:
    """The colour of a state, or of its first word; other columns have none."""
    if column not in _STATES or not isinstance(value, str):
        return ""
    return _STYLES.get(value) or _STYLES.get(value.partition(" ")[0].rstrip(","), "")


def _yaml(value: Any) -> str:
    import yaml

    plain = json.loads(json.dumps(value, default=str))
    return yaml.safe_dump(plain, sort_keys=False, allow_unicode=True, width=110).rstrip("\n")


def _cell(value: Any) -> str:
    """One value on one line. Control characters are escaped, as they could move the terminal's cursor."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return _CONTROL.sub(lambda match: _ESCAPES.get(match[0], f"\\x{ord(match[0]):02x}"), text)


def _line(text: str) -> None:
    print(text, flush=True)
