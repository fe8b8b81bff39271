"""Patterns of declarations: for services (queues and topics) and for events (the header `type`).

Names have levels, separated by dots. In a pattern `*` is one level, and stands for any characters within one;
`>` or `#`, at the end, is all levels that follow. A pattern that is only `*` or `>` matches everything.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from broker_app.base import wildcards
from broker_app.core.destination import QUEUE, TEMP_QUEUE, TEMP_TOPIC, TOPIC

EVERYTHING = ("*", ">", "#")
_REST = (">", "#")
_KINDS = (QUEUE, TOPIC, TEMP_QUEUE, TEMP_TOPIC)
#: characters of a pattern at most
MAX_PATTERN = 300

Test = Callable[[str], bool]


class Pattern:
    """A pattern for texts with levels. Raises ValueError with the reason for an invalid one."""

    def __init__(self, text: str) -> None:
        check(text)
        self.text = text
        self.is_everything = text in EVERYTHING
        levels = text.split(".")
        self._open = levels[-1] in _REST
        fixed = levels[:-1] if self._open else levels
        self._levels: Sequence[Test] = [wildcards.matcher(level) for level in fixed]
        self._fixed = fixed
        self.is_literal = not self._open and not any(wildcards.ANY in level for level in fixed)

    def matches(self, text: str) -> bool:
        """Return whether the whole text matches."""
        if self.is_literal:
            return text == self.text
        if self.is_everything:
            return True
        levels = text.split(".")
        count = len(self._levels)
        if len(levels) < count or (len(levels) > count and not self._open):
            return False
        return all(test(level) for test, level in zip(self._levels, levels, strict=False))

    def overlaps(self, filter: str) -> bool:
        """Return whether a text may match both this pattern and the filter of a subscription to topics."""
        if self.is_everything:
            return True
        others = filter.split(".")
        other_open = others[-1] in _REST
        if other_open:
            others.pop()
        shared = min(len(others), len(self._fixed))
        if len(others) > shared and not self._open:
            return False
        if len(self._fixed) > shared and not other_open:
            return False
        return all(
            other == wildcards.ANY or test(other)
            for test, other in zip(self._levels[:shared], others[:shared], strict=True)
        )


class ServicePattern:
    """A pattern for addresses: a name is that of queues, an address as `/topic/prices.>` that of its kind."""

    def __init__(self, text: str) -> None:
        kind, name = QUEUE, text
        if text.startswith("/"):
            kind, slash, name = text[1:].partition("/")
            if kind not in _KINDS or not slash:
                raise ValueError(f"must begin with /{'/, /'.join(_KINDS)}/, or be the name of a queue")
        self._pattern = Pattern(name)
        self.is_everything = text in EVERYTHING
        self._prefix = "" if self.is_everything else f"/{kind}/"
        self.text = text
        #: the only address that matches, None for a pattern
        self.address = self._prefix + name if self._pattern.is_literal else None

    def matches(self, address: str) -> bool:
        """Return whether an address matches."""
        if self.is_everything:
            return True
        return address.startswith(self._prefix) and self._pattern.matches(address[len(self._prefix) :])

    def overlaps(self, address: str) -> bool:
        """Return whether messages to a subscription of `address`, which may have wildcards, may match."""
        if self.is_everything:
            return True
        return address.startswith(self._prefix) and self._pattern.overlaps(address[len(self._prefix) :])


def check(text: str) -> None:
    """Raises ValueError with the reason unless `text` is a pattern."""
    if not text:
        raise ValueError("is empty; write * for everything")
    if len(text) > MAX_PATTERN:
        raise ValueError(f"has {len(text)} characters; at most {MAX_PATTERN} are allowed")
    if not text.isprintable() or text != text.strip():
        raise ValueError("has a control character in it, or white space at its ends")
    levels = text.split(".")
    if any(level in _REST for level in levels[:-1]):
        raise ValueError("has '>' or '#' before its end; they are allowed only as the last level")
