"""The lag of readers over time: of the journal's cursors in positions, of standbys in records.

It is sampled where the end is known, so it grows when a reader is dead.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Final

#: seconds between samples, and how many are kept: half an hour
STEP_S: Final = 15
KEPT: Final = 120


class LagSamples:
    """Samples of lags, in memory. `read` returns those of now by the names of readers; belongs to the loop's
    thread."""

    def __init__(self, read: Callable[[], Mapping[str, int]]) -> None:
        self._read = read
        self._samples: dict[str, deque[int]] = {}
        self._seconds = 0

    def pass_second(self) -> None:
        """Sample each reader if it is time; called once a second."""
        if self._seconds % STEP_S == 0:
            lags, former = self._read(), self._samples
            self._samples = {name: former.get(name) or deque(maxlen=KEPT) for name in lags}
            for name, samples in self._samples.items():
                samples.append(lags[name])
        self._seconds += 1

    def of(self, name: str) -> list[int]:
        """The samples of a reader, oldest first; empty for a new one."""
        return list(self._samples.get(name, ()))
