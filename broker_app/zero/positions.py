"""Places: where in which file something stands, and how it is shown there."""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import NamedTuple

#: a statement begins a line; no string goes over one, so nothing else begins one like this
STATEMENT = re.compile(r"^[ \t]*(?=[/@])", re.MULTILINE)

#: characters of a line that are shown around a place
_WIDTH = 120
_SECRET = re.compile(r"passw|passcode|secret|credential|token|private", re.IGNORECASE)
# What may be shown of a statement with secrets: its key, names of members, and what is between values.
_OPEN = re.compile(r'^[ \t]*[/@][^\s=]*|"(?:[^"\\\n]|\\.)*"(?=\s*:)|[\s{}\[\],:=+#]+')


class Place(NamedTuple):
    """A place in a file. Lines and columns count from 1, columns in characters.

    What a file says that was included with arguments is said where the `@include` stands: `said_at`.
    """

    file: str
    line: int
    column: int
    said_at: Place | None = None

    @property
    def source(self) -> str:
        """FILE:LINE of who says it."""
        return self.said_at.source if self.said_at is not None else f"{self.file}:{self.line}"

    def __str__(self) -> str:
        at = f"{self.file}:{self.line}:{self.column}"
        return f"{at} (included at {self.said_at.source})" if self.said_at is not None else at


class Source:
    """The text of one file, and where its lines and statements begin."""

    def __init__(self, name: str, text: str) -> None:
        self.name = name
        self.text = text
        self._lines = [0, *(match.end() for match in re.finditer("\n", text))]
        self._statements = [match.start() for match in STATEMENT.finditer(text)]

    def place(self, offset: int) -> Place:
        """The place of the character at `offset`."""
        line = bisect_right(self._lines, offset)
        return Place(self.name, line, offset - self._lines[line - 1] + 1)

    def statements(self) -> list[tuple[int, str]]:
        """(offset, text) of each statement, with the comments and empty lines behind it; what stands before
        the first one comes first."""
        starts = [0, *self._statements] if self._statements[:1] != [0] else self._statements
        ends = [*starts[1:], len(self.text)]
        return [(start, self.text[start:end]) for start, end in zip(starts, ends, strict=True)]

    def stands(self, place: Place, text: str) -> bool:
        """Whether `text` stands at a place."""
        return self.text.startswith(text, self._lines[place.line - 1] + place.column - 1)

    def marker(self, place: Place) -> str:
        """The line of a place, and below it a mark at its column; secrets are dotted out."""
        begin = self._lines[place.line - 1]
        line = self.text[begin:].partition("\n")[0].rstrip("\r")
        if _SECRET.search(self._statement_around(begin + len(line))):
            line = _dotted(line)
        first = max(0, place.column - 1 - _WIDTH // 2)
        shown = "".join(char if char.isprintable() else " " for char in line[first : first + _WIDTH])
        return f"{shown}\n{' ' * (place.column - 1 - first)}^"

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
