"""Properties files, as of Java: `key=value`, `key: value` or `key value`, `#` and `!` before comments."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

#: a key up to a separator that has no backslash before it, and what follows
_ENTRY: Final = re.compile(r"((?:\\.|[^\\=:\s])*)\s*[=:]?\s*(.*)", re.DOTALL)
_ESCAPE: Final = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_CONTROL: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_END: Final = re.compile(r"\r\n|\r|\n")
#: at the end of a line that goes on in the next one: an odd number of backslashes
_GOES_ON: Final = re.compile(r"(?<!\\)(\\\\)*\\$")


class Property(NamedTuple):
    """One entry, and the number of its first line."""

    line: int
    name: str
    value: str


def parse(text: str) -> Iterator[Property]:
    """The entries of a file, in their order."""
    for number, line in _logical_lines(text):
        found = _ENTRY.fullmatch(line)
        assert found is not None  # it matches every text
        yield Property(number, _unescaped(found[1]), _unescaped(found[2]).rstrip())


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines without comments and blank ones; those that go on are joined with the next."""
    begun: list[str] = []
    first = 0
    for number, line in enumerate(_END.split(text), 1):
        stripped = line.lstrip()
        if not begun:
            if not stripped or stripped[0] in "#!":
                continue
            first = number
        goes_on = _GOES_ON.search(stripped) is not None
        begun.append(stripped[:-1] if goes_on else stripped)
        if not goes_on:
            yield first, "".join(begun)
            begun = []
    if begun:
        yield first, "".join(begun)


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(_character, text)


def _character(found: re.Match[str]) -> str:
    word = found[1]
    return chr(int(word[1:], 16)) if len(word) > 1 else _CONTROL.get(word, word)
