"""Limits that all brokers share (`scope=cluster`): each reports what it uses, and counts what others use."""

from __future__ import annotations

from collections import defaultdict
from typing import Final

from broker_app.core.broker import Broker
from broker_app.core.remote.cluster_usage import NONE, Usage
from broker_app.features.cluster.links import frames as f

#: destinations of one frame
_MOST: Final = 1_000


class SharedLimits:
    """The use of shared limits by each other broker, and what this one has reported."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._reported: dict[str, Usage] = {}
        self._others: defaultdict[str, dict[str, Usage]] = defaultdict(dict)

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
        of_broker = self._others[broker]
        for address, messages, size, producers in frame.entries:
            usage = Usage(max(0, messages), max(0, size), max(0, producers))
            if usage == NONE:
                of_broker.pop(address, None)
            else:
                of_broker[address] = usage
            self._sum(address)

    def forget(self, broker: str) -> None:
        """Count a broker no longer that is not linked."""
        for address in self._others.pop(broker, {}):
            self._sum(address)

    def _sum(self, address: str) -> None:
        found = [of[address] for of in self._others.values() if address in of]
        self._broker.cluster_usage.update(
            address, Usage(*map(sum, zip(*found, strict=True))) if found else NONE
        )


def _frames(usages: dict[str, Usage]) -> list[f.SharedUse]:
    entries = [(address, *usage) for address, usage in usages.items()]
    return [f.SharedUse(entries[at : at + _MOST]) for at in range(0, len(entries), _MOST)]
