"""Shares: how many messages to profiles one user may have waiting for services, in number and bytes."""

from __future__ import annotations

from collections import Counter
from typing import Final, NamedTuple

from broker_app.base.refused import Refused

#: seeds of one user at most, and their bytes with headers
MOST: Final = 1_000
MOST_BYTES: Final = 64 * 1024 * 1024


class _Count(NamedTuple):
    """The number of seeds by user, and their bytes."""

    numbers: Counter[str]
    sizes: Counter[str]


class SeedShares:
    """Counts the seeds of each user. A seed counts as sent until the queue of seeds was read, then as waiting
    until its end; one that was refused meanwhile counts no more."""

    def __init__(self) -> None:
        self._waiting = _Count(Counter(), Counter())
        self._sent = _Count(Counter(), Counter())
        #: those that were sent before the queue of seeds is read, and were not found there yet
        self._read = _Count(Counter(), Counter())

    def admit(self, user: str, size: int) -> None:
        """Count a seed that is being sent. Raises Refused when its user has too many."""
        counts = self._waiting, self._sent, self._read
        number = sum(count.numbers[user] for count in counts)
        total = sum(count.sizes[user] for count in counts)
        if number + 1 > MOST or total + size > MOST_BYTES:
            raise Refused(
                "too-many",
                f"{MOST:,} messages of {user} to profiles, or {MOST_BYTES:,} bytes of them, wait already for "
                "services; delete some (DELETE /api/v1/seeds/…), or have them expire",
            )
        _add(self._sent, user, 1, size)

    def begin_reading(self) -> None:
        """The queue of seeds is read next."""
        self._sent, self._read = _Count(Counter(), Counter()), self._sent

    def end_reading(self) -> None:
        """The queue of seeds was read: what was sent before and was not found there has been refused."""
        self._read = _Count(Counter(), Counter())

    def waits(self, user: str, size: int) -> None:
        """A seed waits in the queue of seeds."""
        _add(self._waiting, user, 1, size)
        sent = next((one for one in (self._read, self._sent) if one.numbers[user]), None)
        if sent is not None:
            _add(sent, user, -1, -size)

    def ended(self, user: str, size: int) -> None:
        """A seed has left the queue of seeds."""
        _add(self._waiting, user, -1, -size)


def _add(counted: _Count, user: str, number: int, size: int) -> None:
    """Count for a user, who is forgotten without any."""
    counted.numbers[user] += number
    counted.sizes[user] += size
    if not counted.numbers[user]:
        del counted.numbers[user], counted.sizes[user]
