"""What moved since it was told last: rows that lists of destinations live on, one message for all."""

from __future__ import annotations

from itertools import islice
from typing import Any

from broker_app.telemetry.health import GROWING
from broker_app.telemetry.statistics import Statistics

#: rows of one message; what moved beyond them is told in the next one
MAX_ROWS = 1_000
Row = list[Any]


class DestinationChanges:
    """Remembers which destinations are to be told of, those that moved first first."""

    def __init__(self, statistics: Statistics) -> None:
        self._statistics = statistics
        self._due: dict[str, None] = {}
        #: told to grow: that they do so no more is news even if they rest
        self._growing: set[str] = set()

    def forget(self) -> None:
        """Nobody listens: what is to be told begins anew with the next listener."""
        self._due.clear()
        self._growing.clear()

    def tell(self) -> dict[str, Any] | None:
        """What is to be told after a pass of the statistics; None when it is nothing."""
        statistics = self._statistics
        self._due |= dict.fromkeys(
            address for address in statistics.moving() if not address.startswith("/temp-")
        )
        self._due |= dict.fromkeys(address for address in self._growing if not self._grows(address))
        told = list(islice(self._due, MAX_ROWS))
        for address in told:
            del self._due[address]
        rows = [self._row(address) for address in told if statistics.exists(address)]
        if not rows:
            return None
        return {"time": statistics.head()["time"], "rows": rows, "missed": len(self._due)}

    def _grows(self, address: str) -> bool:
        there = self._statistics.exists(address)
        return there and self._statistics.condition(address).state == GROWING

    def _row(self, address: str) -> Row:
        brief, condition = self._statistics.brief(address), self._statistics.condition(address)
        (self._growing.add if condition.state == GROWING else self._growing.discard)(address)
        return [
            address,
            brief["depth"],
            brief["unsettled"],
            brief["consumers"],
            brief["in_rate"],
            brief["out_rate"],
            brief["oldest_s"],
            *condition,
        ]
