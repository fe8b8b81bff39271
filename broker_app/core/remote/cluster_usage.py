"""The use of destinations by the other brokers of a cluster, which limits with `scope=cluster` count."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

#: queues about which the others are asked at a time
MOST_UNUSED: Final = 500


class Usage(NamedTuple):
    """The use of the limits of one destination."""

    messages: int = 0
    bytes: int = 0
    producers: int = 0


NONE = Usage()


class ClusterUsage:
    """The use of each destination by all other brokers together. It is empty without a cluster."""

    def __init__(self) -> None:
        self._of: dict[str, Usage] = {}
        #: the number of brokers of the cluster, with this one
        self.brokers: Callable[[], int] = lambda: 1
        #: the names of all others, linked or not: this broker does not show the messages that they own
        self.others: Callable[[], list[str]] = list
        #: queues without use here that are deleted unless others use them; None: there are no others
        self.unused: dict[str, None] | None = None
        #: destinations that others use more than before, and whose own messages may have to make room
        self.grown: set[str] = set()

    def of(self, address: str) -> Usage:
        """The use of a destination by the others."""
        return self._of.get(address, NONE)

    def update(self, address: str, usage: Usage) -> None:
        """Replace the use of a destination by the others. Messages that wait for room are admitted, and
        those beyond a limit removed, within a second."""
        before = self.of(address)
        if usage == NONE:
            self._of.pop(address, None)
        else:
            self._of[address] = usage
        if usage.messages > before.messages or usage.bytes > before.bytes:
            self.grown.add(address)
