"""Messages a second over each link, from counts that are noted each second."""

from __future__ import annotations

from collections import deque

#: seconds over which rates are averaged
_OVER = 5


class Traffic:
    """The counts of the last seconds, by address of the other broker."""

    def __init__(self) -> None:
        self._counts: dict[str, deque[tuple[float, int, int]]] = {}

    def note(self, address: str, sent: int, received: int, returned: int, now: float) -> None:
        """Note the counts of messages so far; `now` is monotonic."""
        self._counts.setdefault(address, deque(maxlen=_OVER + 1)).append((now, sent, received - returned))

    def rates(self, address: str) -> tuple[float, float]:
        """Messages a second that were sent, and that came and were kept."""
        counts = self._counts.get(address)
        if counts is None or len(counts) < 2:
            return 0.0, 0.0
        (began, sent, received), (ended, sent_now, received_now) = counts[0], counts[-1]
        seconds = max(ended - began, 0.001)
        return (sent_now - sent) / seconds, (received_now - received) / seconds
