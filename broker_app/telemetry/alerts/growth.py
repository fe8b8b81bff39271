"""The growth of queues of dead letters, from samples of their totals."""

from __future__ import annotations

from collections import deque
from collections.abc import Container, Iterator, Mapping
from typing import Final

#: queues of dead letters whose growth is watched, the interval of its samples, and the time over which it is
#: counted, in seconds
MAX_GROWING: Final = 1_000
GROWTH_STEP_S: Final = 30.0
GROWTH_S: Final = 600


class Growth:
    """The growth of dead letters by queue: samples of their totals, half a minute apart. One that was
    deleted is forgotten when its growth is no longer looked at."""

    def __init__(self) -> None:
        self._points: dict[str, deque[tuple[float, int]]] = {}
        self._latest: dict[str, int] = {}
        self._begun = False

    def note(self, now: float, totals: Mapping[str, int], queues: Container[str]) -> None:
        """`totals` are how many came since the node started, to those of all `queues` that hold any."""
        self._forget(now, queues)
        for address, total in totals.items():
            if address not in self._points and len(self._points) < MAX_GROWING:
                # What was there at the first look did not come since.
                first = (now, 0 if self._begun else total)
                self._points[address] = deque([first], maxlen=int(GROWTH_S / GROWTH_STEP_S) + 5)
        self._begun = True
        for address, points in self._points.items():
            total = totals.get(address, self._latest.get(address, 0))
            if total < points[-1][1]:  # the queue was created again
                points.clear()
                points.append((now, 0))
            elif now - points[-1][0] >= GROWTH_STEP_S and address in queues:
                points.append((now, total))
            self._latest[address] = total

    def _forget(self, now: float, queues: Container[str]) -> None:
        """Forget queues that were deleted so long ago that nothing can have come since."""
        gone = [
            address
            for address, points in self._points.items()
            if now - points[-1][0] > GROWTH_S and address not in queues
        ]
        for address in gone:
            del self._points[address], self._latest[address]

    def shift(self, by_s: float) -> None:
        """Move all points forward by this time, because the clock was set."""
        for points in self._points.values():
            shifted = [(at + by_s, total) for at, total in points]
            points.clear()
            points.extend(shifted)

    def since(self, then: float) -> Iterator[tuple[str, int]]:
        """(queue, how many came since then) of those to which any did."""
        for address, points in self._points.items():
            while len(points) > 1 and points[1][0] <= then:
                points.popleft()
            if grown := self._latest[address] - points[0][1]:
                yield address, grown
