"""Changes of destinations since the last report, for live lists: one message for all."""

from __future__ import annotations

from itertools import islice
from typing import Any

from broker_app.base.reply_types import Facts
from broker_app.telemetry.health import GROWING, Health
from broker_app.telemetry.statistics import Statistics

#: rows of one message; further ones are in the next message
MAX_ROWS = 1_000
Row = list[Any]
_FIGURES = ("depth", "unsettled", "consumers", "in_rate", "out_rate", "oldest_s")
#: the values of a row, after the address
COLUMNS = (*_FIGURES, *Health._fields)


class DestinationStatsFeed:
    """Remembers the destinations to report, the first changed first."""

    def __init__(self, statistics: Statistics) -> None:
        self._statistics = statistics
        self._due: dict[str, None] = {}
        #: reported as growing: the end of that is reported even if they are idle
        self._growing: set[str] = set()

    def forget(self) -> None:
        """There are no subscribers any more: start again with the next one."""
        self._due.clear()
        self._growing.clear()

    def next_message(self) -> dict[str, object] | None:
        """The message after a sample of the statistics; None if nothing changed."""
        statistics = self._statistics
        self._due |= dict.fromkeys(
            address for address in statistics.moving() if not address.startswith("/temp-")
        )
        self._due |= dict.fromkeys(address for address in self._growing if not self._grows(address))
        addresses = list(islice(self._due, MAX_ROWS))
        for address in addresses:
            del self._due[address]
        rows = [self._row(address) for address in addresses if statistics.exists(address)]
        if not rows:
            return None
        return {"time": statistics.head()["time"], "rows": rows, "missed": len(self._due)}

    def _grows(self, address: str) -> bool:
        there = self._statistics.exists(address)
        return there and self._statistics.condition(address).state == GROWING

    def _row(self, address: str) -> Row:
        brief: Facts = self._statistics.brief(address)
        condition = self._statistics.condition(address)
        (self._growing.add if condition.state == GROWING else self._growing.discard)(address)
        return [address, *(brief[name] for name in _FIGURES), *condition]
