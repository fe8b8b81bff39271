"""Timers of the core. Time is a number that is passed to `decide`."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from heapq import heapify, heappop, heappush
from typing import Generic, TypeVar

from broker_app.core.model import Peer

#: time between two sweeps through all queues, and between the parts of one
SWEEP_MS, SLICE_MS = 1_000, 20

_Key = TypeVar("_Key", bound=Hashable)


class Alarms(Generic[_Key]):
    """One time for each key. A later `set` for the same key replaces the earlier one. `call_at` is called
    with the time of each alarm that is due before all others (`Turn.call_at`)."""

    #: cleared alarms that may stay in the heap, in addition to as many as there are alarms
    MAX_ENDED = 1_000

    def __init__(self, call_at: Callable[[int], None]) -> None:
        self._call_at = call_at
        self._heap: list[tuple[int, int, _Key]] = []
        self._at: dict[_Key, int] = {}
        self._count = 0
        #: when the first alarm is due, 0 for none; possibly too early, after one was cleared
        self.next_ms = 0

    def set(self, key: _Key, at_ms: int) -> None:
        """Set the time of `key`."""
        self._at[key] = at_ms
        self._count += 1
        heappush(self._heap, (at_ms, self._count, key))
        if len(self._heap) > 2 * len(self._at) + self.MAX_ENDED:
            self._heap = [entry for entry in self._heap if self._at.get(entry[2]) == entry[0]]
            heapify(self._heap)
        first_ms = self._heap[0][0]
        if first_ms != self.next_ms:
            self.next_ms = first_ms
            self._call_at(first_ms)

    def clear(self, key: _Key) -> None:
        """Clear the alarm of `key`, if there is one."""
        self._at.pop(key, None)

    def at_ms(self, key: _Key) -> int:
        """The time when `key` is due, 0 for never."""
        return self._at.get(key, 0)

    def shift(self, by_ms: int) -> None:
        """Shift all alarms, because the clock was set."""
        self._heap = [(at_ms + by_ms, count, key) for at_ms, count, key in self._heap]
        self._at = {key: at_ms + by_ms for key, at_ms in self._at.items()}
        self._note_next()

    def due(self, now_ms: int) -> Iterator[_Key]:
        """The keys that are due, each once; their alarms are cleared."""
        while self._heap and self._heap[0][0] <= now_ms:
            at_ms, _, key = heappop(self._heap)
            self._note_next()
            if self._at.get(key) == at_ms:
                del self._at[key]
                yield key

    def _note_next(self) -> None:
        self.next_ms = self._heap[0][0] if self._heap else 0


class Leases:
    """The leases of unsettled deliveries: when they are returned by themselves."""

    def __init__(self, call_at: Callable[[int], None]) -> None:
        self.alarms: Alarms[tuple[Peer, int]] = Alarms(call_at)

    def begin(self, peer: Peer, tag: int, until_ms: int) -> None:
        """Begin a lease, or replace the one that the delivery has."""
        self.alarms.set((peer, tag), until_ms)

    def end(self, peer: Peer, tag: int) -> None:
        """End the lease of a delivery that was settled or returned."""
        self.alarms.clear((peer, tag))

    def until_ms(self, peer: Peer, tag: int) -> int:
        """The time when the lease ends, 0 when there is none."""
        return self.alarms.at_ms((peer, tag))

    def shift(self, by_ms: int) -> None:
        """Shift all leases, because the clock was set."""
        self.alarms.shift(by_ms)

    def due(self, now_ms: int) -> Iterator[tuple[Peer, int]]:
        """The deliveries whose lease has ended."""
        return self.alarms.due(now_ms)
