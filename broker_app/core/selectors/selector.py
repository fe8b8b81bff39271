"""A compiled selector, and the values that it compares."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from broker_app.core import header_block
from broker_app.core.message import Message, MessageIds

Value = str | int | float | bool | None
#: (headers, message, ids) → value
Expression = Callable[[Mapping[str, str], Message, MessageIds], Value]
#: header name → the values of which it must have one
Anchors = dict[str, frozenset[str | int | float]]

#: integers are of 64 bits
LONG = 1 << 63
_NUMBER = re.compile(r"[+-]?(?:\d+|(?:\d+\.\d*|\.\d+|\d+)(?:[eE][+-]?\d+)?)", re.ASCII)


class Selector:
    """A compiled selector.

    `anchors` are headers that must have one of a few values, for the index. `timely` is True when it depends
    on more than the header block. `parts` is the number of its expressions; `searches` is how many of them
    may read the whole value of a header (LIKE)."""

    __slots__ = ("_condition", "anchors", "parts", "searches", "text", "timely")

    def __init__(
        self, text: str, condition: Expression, anchors: Anchors, *, timely: bool, parts: int, searches: int
    ) -> None:
        self.text = text
        self.anchors = anchors
        self.timely = timely
        self.parts = parts
        self.searches = searches
        self._condition = condition

    def cost(self, message: Message) -> int:
        """The highest cost of evaluating it for a message; 1 for a simple one and a short header block."""
        size = len(message.envelope.block)
        return 1 + (self.parts >> 3) + (size * (1 + 8 * self.searches) >> 8)

    def matches(self, message: Message, ids: MessageIds) -> bool:
        """Return whether the selector is true for `message`; `ids` are those of its broker."""
        return self._condition(header_block.headers(message.envelope.block), message, ids) is True

    def accepts(self, headers: Mapping[str, str], message: Message, ids: MessageIds) -> bool:
        """Like `matches`, for a header block that is parsed already."""
        return self._condition(headers, message, ids) is True


def as_number(text: str) -> int | float | None:
    """The number in a header value, None when it is not a number."""
    if len(text) > 40 or not _NUMBER.fullmatch(text):
        return None
    try:
        number = int(text)
    except ValueError:
        return float(text)
    return number if -LONG <= number < LONG else float(text)
