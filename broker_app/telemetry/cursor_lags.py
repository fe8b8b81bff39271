"""The lag of the journal's readers over time: positions behind the end, of each cursor.

It follows from the cursors that the journal keeps, so it grows when a reader is dead.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from broker_app.journal.port import Journal

#: seconds between samples, and how many are kept: half an hour
STEP_S: Final = 15
KEPT: Final = 120


class CursorLags:
    """Samples of all cursors of a journal, in memory; belongs to the loop's thread."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._samples: dict[str, deque[int]] = {}
        self._seconds = 0

    def pass_second(self) -> None:
        """Sample each cursor if it is time; called once a second."""
        if self._seconds % STEP_S == 0:
            end, known, former = self._journal.span().end, self._journal.cursors(), self._samples
            self._samples = {name: former.get(name) or deque(maxlen=KEPT) for name in known}
            for name, samples in self._samples.items():
                samples.append(max(0, end - known[name].position))
        self._seconds += 1

    def of(self, name: str) -> list[int]:
        """The samples of a cursor, oldest first; empty for a new one."""
        return list(self._samples.get(name, ()))
