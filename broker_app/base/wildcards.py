"""Wildcards: texts against patterns in which `*` stands for any characters, in time that grows with their
lengths alone. A regular expression of the same pattern may take for ever."""

from __future__ import annotations

from collections.abc import Callable

ANY = "*"


def has_wildcard(name: str) -> bool:
    """True if the name of a destination is a pattern: `*` is one level of it, `>` or `#` all that follow."""
    return any(level in ("*", ">", "#") for level in name.split("."))


def matcher(pattern: str) -> Callable[[str], bool]:
    """True if `pattern` matches the whole text."""
    first, *middle = pattern.split(ANY)
    if not middle:
        return lambda text: text == first
    last = middle.pop()
    pieces = [piece for piece in middle if piece]

    def fits(text: str) -> bool:
        at, end = len(first), len(text) - len(last)
        if at > end or not text.startswith(first) or not text.endswith(last):
            return False
        # The leftmost place of each piece leaves the most room to those behind it.
        for piece in pieces:
            at = text.find(piece, at, end)
            if at < 0:
                return False
            at += len(piece)
        return True

    return fits
