"""Output: rows as a table for people, TSV for pipes, JSON for programs."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

TABLE, TSV, JSON, YAML, NDJSON, ID = "table", "tsv", "json", "yaml", "ndjson", "id"
FORMATS = (TABLE, TSV, JSON, YAML, NDJSON, ID)

Row = Mapping[str, Any]

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_SPELLED = {"\t": "\\t", "\n": "\\n", "\r": "\\r", "\\": "\\\\"}


class Output:
    """Writes rows in one format. The first column is what identifies a row."""

    def __init__(self, form: str | None = None, *, header: bool = True, quiet: bool = False) -> None:
        at_terminal = sys.stdout.isatty()
        self.form = form or (TABLE if at_terminal else TSV)
        #: a person reads, and did not ask for details
        self.brief = form is None and at_terminal
        self.quiet = quiet
        self._header = header

    def say(self, sentence: str) -> None:
        """Talk: to stderr, and not at all with -q."""
        if not self.quiet:
            print(sentence, file=sys.stderr, flush=True)

    def warn(self, sentence: str) -> None:
        """What is wrong, to stderr: red where a person looks, and with -q too."""
        from rich.console import Console
        from rich.text import Text

        Console(stderr=True, soft_wrap=True).print(Text(sentence, style="bold red"))

    def rows(self, columns: Sequence[str], rows: Iterable[Row], *, whole: bool = False) -> None:
        """A list of rows. JSON shows all their members if `whole`, else the columns alone."""
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
        """One row of a stream, written at once: a line of TSV without header, or a JSON object."""
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
        """One thing: a line for each of its facts, or one JSON object."""
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
        """What came of a change: a sentence for people, the facts for everybody who asked for them."""
        if self.brief:
            self.say(sentence)
        else:
            self.facts(facts)

    def _table(self, columns: Sequence[str], rows: list[dict[str, Any]]) -> None:
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        table = Table(box=None, show_header=self._header, header_style="bold", pad_edge=False)
        for name in columns:
            number = all(isinstance(row.get(name), int | float) for row in rows) and bool(rows)
            table.add_column(name.replace("_", " "), justify="right" if number else "left", overflow="fold")
        for row in rows:
            table.add_row(*[Text(_cell(row.get(name))) for name in columns])
        Console().print(table)


def _yaml(value: Any) -> str:
    import yaml

    plain = json.loads(json.dumps(value, default=str))
    return yaml.safe_dump(plain, sort_keys=False, allow_unicode=True, width=110).rstrip("\n")


def _cell(value: Any) -> str:
    """One value on one line. What a message holds must not move the terminal's cursor."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return _CONTROL.sub(lambda match: _SPELLED.get(match[0], f"\\x{ord(match[0]):02x}"), text)


def _line(text: str) -> None:
    print(text, flush=True)
