"""Time as the core sees it: numbers that come in with `decide`."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heapify, heappop, heappush

from broker_app.core.peer import Peer

SWEEP_MS = 1_000


def next_sweep(now_ms: int) -> int:
    return now_ms + SWEEP_MS


class Leases:
    """When unsettled deliveries come back by themselves. A later `begin` for the same delivery replaces
    the earlier one; what was settled meanwhile is passed over when its time comes."""

    #: leases that ended early and may stay in the heap, beside as many as there are leases
    MOST_ENDED = 1_000

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Peer, int]] = []
        self._until: dict[tuple[Peer, int], int] = {}
        self._count = 0

    @property
    def next_ms(self) -> int:
        return self._heap[0][0] if self._heap else 0

    def begin(self, peer: Peer, tag: int, until_ms: int) -> None:
        self._until[peer, tag] = until_ms
        self._count += 1
        heappush(self._heap, (until_ms, self._count, peer, tag))
        if len(self._heap) > 2 * len(self._until) + self.MOST_ENDED:
            self._heap = [entry for entry in self._heap if self._until.get(entry[2:]) == entry[0]]
            heapify(self._heap)

    def end(self, peer: Peer, tag: int) -> None:
        """Forget the lease of a delivery that was settled or returned."""
        self._until.pop((peer, tag), None)

    def until_ms(self, peer: Peer, tag: int) -> int:
        """When the lease ends, 0 when there is none."""
        return self._until.get((peer, tag), 0)

    def due(self, now_ms: int) -> Iterator[tuple[Peer, int]]:
        while self._heap and self._heap[0][0] <= now_ms:
            until_ms, _, peer, tag = heappop(self._heap)
            if self._until.get((peer, tag)) == until_ms:
                del self._until[peer, tag]
                yield peer, tag
