"""The cursor of a stream: the position that brokers know it has read, and keep their journals from."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from typing import Final, Protocol, runtime_checkable

from pyspark_mom.errors import MomError
from pyspark_mom.offsets import Offset
from pyspark_mom.transport import Journal

_log = logging.getLogger(__name__)

#: seconds between two reports of a broker: at least, and at most when nothing has changed
_LEAST_S: Final = 1.0
_MOST_S: Final = 60.0


@runtime_checkable
class KeepsCursors(Protocol):
    """A journal whose broker keeps cursors."""

    def set_cursor(self, name: str, position: int) -> None:
        """Report that everything before a position was read. Raises MomError."""
        ...


class Cursor:
    """Reports to each broker how far it was read. A report that fails is logged: the next one makes up for
    it."""

    def __init__(
        self, name: str | None, journals: Mapping[str, Journal], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._name = name
        self._journals = journals
        self._clock = clock
        #: position and time of the last report, by broker
        self._reported: dict[str, tuple[int, float]] = {}

    def report(self, offset: Offset, *, now: bool = False) -> None:
        """Report that everything before `offset` was read; not too often, unless it must be `now`."""
        for name in offset.keys() & self._journals.keys():
            if self._name is not None and self._is_due(name, offset[name].pos, now=now):
                self._report(self._name, name, offset[name].pos)

    def _is_due(self, broker: str, position: int, *, now: bool) -> bool:
        if broker not in self._reported:
            return True
        before, at = self._reported[broker]
        passed = self._clock() - at
        return passed >= _MOST_S or (position != before and (now or passed >= _LEAST_S))

    def _report(self, cursor: str, broker: str, position: int) -> None:
        journal = self._journals[broker]
        assert isinstance(journal, KeepsCursors), "the options permit cursors for these addresses alone"
        self._reported[broker] = (position, self._clock())
        try:
            journal.set_cursor(cursor, position)
        except MomError as error:
            _log.warning("the cursor %s is not reported: %s", cursor, error)
