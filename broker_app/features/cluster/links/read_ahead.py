"""Read-ahead: messages that quick consumers of another broker are sent beyond their credit.

They wait at that broker, so that a consumer that has acknowledged is given the next ones without a trip over
the link. What waits there for 0.1 s comes back, marked as redelivered: so only consumers that use up their
credit in half of that time are sent more, and those that pause again and again less and less often.
"""

from __future__ import annotations

from typing import Final

#: seconds in which consumers use up their credit, at most, after what the link takes: to begin, and to go on
_QUICK_S: Final = 0.05
_STILL_QUICK_S: Final = 0.075
#: seconds without read-ahead after messages have come back: at first, and after further times
_FIRST_PAUSE_S: Final = 1.0
_MOST_PAUSE_S: Final = 60.0


class ReadAhead:
    """The decision whether the consumers of one subscription are sent more than their credit: `is_on`."""

    __slots__ = ("_acked", "_looked_s", "_not_before_s", "_pause_s", "is_on")

    def __init__(self) -> None:
        self.is_on = False
        #: deliveries that were acknowledged, and the time, at the last look
        self._acked = 0
        self._looked_s = 0.0
        self._not_before_s = 0.0
        self._pause_s = _FIRST_PAUSE_S

    def look(self, acked: int, credit: int, now_s: float, link_s: float) -> bool:
        """Decide by the number of deliveries acknowledged so far, where a trip over the link and back takes
        `link_s`; returns whether to look again even if nothing is sent."""
        within_s = link_s + (_STILL_QUICK_S if self.is_on else _QUICK_S)
        more, passed_s = acked - self._acked, now_s - self._looked_s
        if passed_s < within_s:
            return True  # acknowledgements come in bursts
        self._acked, self._looked_s = acked, now_s
        self.is_on = now_s >= self._not_before_s and more * within_s >= credit * passed_s
        return self.is_on

    def came_back(self, now_s: float) -> None:
        """Note that messages have come back: the consumers were not quick."""
        self.is_on = False
        self._not_before_s = now_s + self._pause_s
        self._pause_s = min(2 * self._pause_s, _MOST_PAUSE_S)
