"""Positions in files, and how they are shown."""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import NamedTuple

#: a statement begins a line; strings do not span lines, so nothing else begins a line like this
STATEMENT = re.compile(r"^[ \t]*(?=[/@])", re.MULTILINE)

#: characters of a line that are shown around a position
_WIDTH = 120
_SECRET = re.compile(r"passw|passcode|secret|credential|token|private", re.IGNORECASE)
# What may be shown of a statement with secrets: its key, names of members, and what is between values.
_OPEN = re.compile(r'^[ \t]*[/@][^\s=]*|"(?:[^"\\\n]|\\.)*"(?=\s*:)|[\s{}\[\],:=+#]+')


class Position(NamedTuple):
    """A position in a file. Lines and columns start at 1, columns in characters.

    For a file that was included with arguments, `included_at` is the position of the `@include`.
    """

    file: str
    line: int
    column: int
    included_at: Position | None = None

    @property
    def source(self) -> str:
        """FILE:LINE, of the `@include` where there is one."""
        return self.included_at.source if self.included_at is not None else f"{self.file}:{self.line}"

    def __str__(self) -> str:
        at = f"{self.file}:{self.line}:{self.column}"
        return f"{at} (included at {self.included_at.source})" if self.included_at is not None else at


class SourceText:
    """The text of one file, with the offsets of its lines and statements."""

    def __init__(self, name: str, text: str) -> None:
        self.name = name
        self.text = text
        self._lines = [0, *(match.end() for match in re.finditer("\n", text))]
        self._statements = [match.start() for match in STATEMENT.finditer(text)]

    def position(self, offset: int) -> Position:
        """The position of the character at `offset`."""
        line = bisect_right(self._lines, offset)
        return Position(self.name, line, offset - self._lines[line - 1] + 1)

    def statements(self) -> list[tuple[int, str]]:
        """(offset, text) of each statement with the comments and empty lines after it. Text before the first
        statement comes first."""
        starts = [0, *self._statements] if self._statements[:1] != [0] else self._statements
        ends = [*starts[1:], len(self.text)]
        return [(start, self.text[start:end]) for start, end in zip(starts, ends, strict=True)]

    def stands(self, position: Position, text: str) -> bool:
        """True if `text` is at a position."""
        return self.text.startswith(text, self._lines[position.line - 1] + position.column - 1)

    def marker(self, position: Position) -> str:
        """The line of a position, and below it a marker at its column; secrets are replaced by dots."""
        begin = self._lines[position.line - 1]
        line = self.text[begin:].partition("\n")[0].rstrip("\r")
        if _SECRET.search(self._statement_around(begin + len(line))):
            line = _dotted(line)
        first = max(0, position.column - 1 - _WIDTH // 2)
        shown = "".join(char if char.isprintable() else " " for char in line[first : first + _WIDTH])
        return f"{shown}\n{' ' * (position.column - 1 - first)}^"

    def _statement_around(self, offset: int) -> str:
        index = bisect_right(self._statements, offset)
        begin = self._statements[index - 1] if index else 0
        end = self._statements[index] if index < len(self._statements) else len(self.text)
        return self.text[begin:end]


def _dotted(line: str) -> str:
    """A line with a dot for each character of its values."""
    open_to: list[tuple[int, int]] = [match.span() for match in _OPEN.finditer(line)]
    kept = {index for begin, end in open_to for index in range(begin, end)}
    return "".join(char if index in kept else "·" for index, char in enumerate(line))
