"""The replay of a subscription: where it begins in the history of its topics, and how far it has read."""

from __future__ import annotations

from collections.abc import Iterable
from heapq import merge
from itertools import islice
from typing import NamedTuple

from broker_app.base.refused import Refused
from broker_app.core.limits import Limits
from broker_app.core.message import Message
from broker_app.core.topics.history import History

FIRST, LAST, NOW, SEQ, TIME = "first", "last", "now", "seq", "time"


class Start(NamedTuple):
    """The start of a replay: the oldest message, the newest one of each topic, new messages only, the
    position `number`, or the time `number` (ms)."""

    kind: str
    number: int = 0


def parse_start(text: str) -> Start:
    """Parse the header `from`, times in ms. Raises Refused("invalid")."""
    kind, _, rest = text.partition(":")
    if text in (FIRST, LAST, NOW):
        return Start(text)
    digits = rest.isascii() and rest.isdigit() and len(rest) <= 18
    if kind in (SEQ, TIME) and digits:
        return Start(kind, int(rest))
    raise Refused(
        "invalid",
        f"from is {text[:60]!r}; it must be first, last, now, seq:<number>, time:<ms> or time:<RFC 3339>",
    )


class HistoryRead(NamedTuple):
    """One message to read back."""

    position: int
    history: History


class Replay:
    """The progress of one subscription through history. `cursor` is the first position not requested yet."""

    #: messages and bytes in memory for one subscription, without unsettled ones
    MESSAGES = 256
    BYTES = 256 * 1024

    __slots__ = (
        "_limits",
        "ahead",
        "average_bytes",
        "cursor",
        "filter",
        "key",
        "loading",
        "not_before_ms",
        "tail",
    )

    def __init__(
        self,
        key: str,
        pattern: str,
        cursor: int,
        not_before_ms: int,
        ahead: list[HistoryRead],
        limits: Limits,
    ) -> None:
        self._limits = limits
        self.key = key
        self.filter = pattern
        self.cursor = cursor
        self.not_before_ms = not_before_ms
        #: single messages that come before what the cursor finds
        self.ahead = ahead
        self.loading: list[HistoryRead] = []
        #: messages published while the last page is read; None before that
        self.tail: list[Message] | None = None
        #: average size of messages, from which the length of a page follows
        self.average_bytes = self.BYTES // 16

    @property
    def run(self) -> int:
        """The number of messages of one page."""
        limits = self._limits
        size = min(self.BYTES, limits.fetch_bytes)
        return max(1, min(self.MESSAGES, limits.fetch_messages, size // max(1, self.average_bytes)))

    def next_page(self, histories: Iterable[History]) -> list[HistoryRead]:
        """The next page, in the order of the journal; empty at the end of history."""
        count = self.run
        page: list[HistoryRead] = []
        while self.ahead and len(page) < count:
            one = self.ahead.pop(0)
            if one.position > one.history.trimmed_to:
                page.append(one)
        if not page:
            page = list(islice(found(histories, self.cursor - 1), count))
            if page:
                self.cursor = page[-1].position + 1
            if len(page) < count:
                self.tail = []
        self.loading = page
        return page


def found(histories: Iterable[History], after: int) -> Iterable[HistoryRead]:
    """The messages of all `histories` beyond a position, in the order of the journal."""
    return merge(*(_pages(history, after) for history in histories))


def _pages(history: History, after: int) -> Iterable[HistoryRead]:
    return (HistoryRead(position, history) for position in history.after(after))
