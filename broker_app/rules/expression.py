"""Expressions: the right side of `=~`, an RE2 expression, which always takes linear time."""

from __future__ import annotations

import re
from functools import lru_cache

import re2

#: bytes that one expression may use; the states that it needs most are kept, the others made again
_MEMORY = 1 << 18
_OPTIONS = re2.Options()
_OPTIONS.log_errors = False
_OPTIONS.never_capture = True
_OPTIONS.max_mem = _MEMORY

#: bytes of the prefix by which it is decided whether an expression can match any of many topics
_PREFIX = 64
_LITERAL = r"(?P<literal>(?:[\w/:@~-]|\\[^\w\s])*)"
_ANYTHING_AFTER = re.compile(rf"\^?{_LITERAL}\.\*\$?")
_LEVELS_AFTER = re.compile(rf"\^?{_LITERAL}\((?:\?:)?\\\.\.[*+]\)\?\$?")


class Expression:
    """Compiled once; matches whole values. Raises ValueError with the error in `text`."""

    def __init__(self, text: str) -> None:
        self.text = text
        try:
            self._compiled = re2.compile(text, _OPTIONS)
        except (re2.error, UnicodeError) as error:
            (what, *_) = error.args
            raise ValueError(what.decode() if isinstance(what, bytes) else "it is no text in UTF-8") from None

    def matches(self, value: str) -> bool:
        return _matches(self, value)

    def search(self, value: str) -> bool:
        return self._compiled.fullmatch(value.encode(errors="replace")) is not None

    def certainty(self, pattern: str) -> bool | None:
        """True if it matches all topics of `pattern`, which has wildcards; False if none; None if possibly
        some, or if that is hard to decide.
        """
        levels = pattern.split(".")
        first = next(at for at, level in enumerate(levels) if level in ("*", ">", "#"))
        fixed = ".".join(levels[:first])
        # With `>` the fixed levels are a topic of the pattern themselves.
        start = fixed + "." if fixed and levels[first] == "*" else fixed
        if self._always_after(start, fixed):
            return True
        return None if self._ever_after(start) else False

    def _always_after(self, start: str, fixed: str) -> bool:
        if whatever := _ANYTHING_AFTER.fullmatch(self.text):
            return start.startswith(_spelled(whatever))
        if whatever := _LEVELS_AFTER.fullmatch(self.text):
            return f"{fixed}.".startswith(_spelled(whatever) + ".")
        return False

    def _ever_after(self, start: str) -> bool:
        try:
            low, high = self._compiled.possiblematchrange(_PREFIX)
        except re2.error:
            return True
        beginning = start.encode(errors="replace")[:_PREFIX]
        return bool(low[: len(beginning)] <= beginning and high >= beginning)


# Expressions are asked about the same few names again and again; asking RE2 takes microseconds.
@lru_cache(maxsize=65_536)
def _matches(expression: Expression, value: str) -> bool:
    return expression.search(value)


def _spelled(found: re.Match[str]) -> str:
    return re.sub(r"\\(.)", r"\1", found["literal"])
