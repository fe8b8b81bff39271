"""The number of receive requests for each queue: callback brokers spare a broker these."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

#: queues that are counted; the one that was asked for longest ago is forgotten
MOST: Final = 10_000


class Polls:
    """Counts receive requests by the address of their queue."""

    def __init__(self) -> None:
        self._counts: OrderedDict[str, int] = OrderedDict()

    def count(self, address: str) -> None:
        """Count a request."""
        self._counts[address] = self._counts.pop(address, 0) + 1
        if len(self._counts) > MOST:
            self._counts.popitem(last=False)

    def of(self, address: str) -> int:
        """The requests for a queue since the broker started."""
        return self._counts.get(address, 0)
