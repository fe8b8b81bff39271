"""The requests of applications at this site that wait for an answer."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any, Final

from broker_app.base.refused import Refused
from broker_app.features.channels.content import CallOutcome
from broker_app.features.channels.deadlines import Deadlines
from broker_app.features.channels.statuses import REP_UNAVAIL, TIMEOUT

#: requests that wait, at most
MOST_WAITING: Final = 1_000
#: milliseconds that a request waits unless it says so, and at most: 32 bits of microseconds
DEFAULT_TIMEOUT_MS: Final = 5_000
MAX_TIMEOUT_MS: Final = 4_294_967

Answered = Callable[[CallOutcome], None]


@dataclass(slots=True)
class Request:
    """A request to `site`, over `link`, None for this site. `answered` is called once."""

    site: str
    link: Any
    timeout_ms: int
    answered: Answered
    since: float


class Requests:
    """The requests that wait, by number. `ended` is called with each, and with its answer."""

    def __init__(self, ended: Callable[[Request, CallOutcome], None]) -> None:
        self._waiting: dict[int, Request] = {}
        self._numbers = count(1)
        self._ended = ended
        self._deadlines = Deadlines(self._timed_out)

    def begin(self, site: str, link: Any, timeout_ms: int, answered: Answered) -> int:
        """The number of a new request. Raises Refused if too many wait."""
        if len(self._waiting) >= MOST_WAITING:
            raise Refused(REP_UNAVAIL, f"busy: {MOST_WAITING:,} requests of this site wait for an answer")
        number = next(self._numbers)
        self._waiting[number] = Request(site, link, timeout_ms, answered, time.monotonic())
        self._deadlines.add(number, timeout_ms / 1000)
        return number

    def answer(self, number: int, link: Any, answer: CallOutcome) -> bool:
        """End a request; returns False if it does not wait, or waits for another site."""
        request = self._waiting.get(number)
        if request is None or request.link is not link:
            return False
        del self._waiting[number]
        self._deadlines.remove(number)
        self._ended(request, answer)
        return True

    def end_all_of(self, link: Any, answer: CallOutcome) -> None:
        """End the requests that wait for an answer over a link."""
        for number in [number for number, one in self._waiting.items() if one.link is link]:
            self.answer(number, link, answer)

    def in_flight(self) -> Iterator[str]:
        """The site of each that waits."""
        return (request.site for request in self._waiting.values())

    def stop(self) -> None:
        """Forget all that wait."""
        self._deadlines.stop()
        self._waiting.clear()

    def _timed_out(self, number: int) -> None:
        request = self._waiting.pop(number)
        reason = f"no answer from {request.site} within {request.timeout_ms:,} ms: the outcome is unknown"
        self._ended(request, CallOutcome(TIMEOUT, reason=reason))
