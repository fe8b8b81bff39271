"""Limits that all brokers share (`scope=cluster`): each reports what it uses, and counts what others use."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

from broker_app.core.broker import Broker
from broker_app.core.remote.cluster_usage import NONE, Usage
from broker_app.features.cluster.links import frames as f

#: bytes of the addresses that one broker uses, with what is kept of each: more than 100,000 are not counted
_MOST_BYTES: Final = 16 * f.MIB
_USAGE_BYTES: Final = 100


class _Uses:
    """The use of destinations by one other broker."""

    def __init__(self) -> None:
        self.of: dict[str, Usage] = {}
        self._bytes = 0

    def set(self, address: str, usage: Usage) -> None:
        """Replace the use of a destination, if there is room for it."""
        size = _USAGE_BYTES + len(address)
        if usage == NONE:
            if self.of.pop(address, None) is not None:
                self._bytes -= size
        elif address in self.of:
            self.of[address] = usage
        elif self._bytes + size <= _MOST_BYTES:
            self.of[address] = usage
            self._bytes += size


class SharedLimits:
    """The use of shared limits by each other broker, and what this one has reported. `later` calls a function
    when the loop has done other work."""

    def __init__(self, broker: Broker, later: Callable[[Callable[[], None]], object]) -> None:
        self._broker = broker
        self._later = later
        self._reported: dict[str, Usage] = {}
        self._others: dict[str, _Uses] = {}
        #: destinations that brokers have used which are not linked any more
        self._to_sum: deque[str] = deque()

    def changes(self) -> list[f.SharedUse]:
        """The changes since the last call, for all links."""
        present = self._broker.destination_limits.shared()
        changed = {
            address: usage for address, usage in present.items() if self._reported.get(address) != usage
        }
        changed |= {address: NONE for address in self._reported if address not in present}
        self._reported = present
        return _frames(changed)

    def all(self) -> list[f.SharedUse]:
        """All that was reported, for a link that is new."""
        return _frames(self._reported)

    def receive(self, broker: str, frame: f.SharedUse) -> None:
        """Count what another broker uses."""
        uses = self._others.setdefault(broker, _Uses())
        for address, messages, size, producers in frame.entries:
            uses.set(address, Usage(messages, size, producers))
            self._sum(address)

    def forget(self, broker: str) -> None:
        """Count a broker no longer that is not linked: as many destinations at a time as a frame has."""
        uses = self._others.pop(broker, None)
        if uses is not None:
            is_idle = not self._to_sum
            self._to_sum += uses.of
            if is_idle:
                self._sum_next()

    def _sum_next(self) -> None:
        for _ in range(min(len(self._to_sum), f.MOST_USES)):
            self._sum(self._to_sum.popleft())
        if self._to_sum:
            self._later(self._sum_next)

    def _sum(self, address: str) -> None:
        found = [uses.of[address] for uses in self._others.values() if address in uses.of]
        self._broker.cluster_usage.update(
            address, Usage(*map(sum, zip(*found, strict=True))) if found else NONE
        )


def _frames(usages: dict[str, Usage]) -> list[f.SharedUse]:
    entries = [(address, *usage) for address, usage in usages.items()]
    return [f.SharedUse(entries[at : at + f.MOST_USES]) for at in range(0, len(entries), f.MOST_USES)]
