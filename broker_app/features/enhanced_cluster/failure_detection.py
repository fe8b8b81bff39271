"""Detection of failures: a member whose heart-beats are missing is suspect, and has failed if it stays so
while it is watched.

A heart-beat is the note that each member writes into the registry; its age is by the clock of the store.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from broker_app.config import Config
from broker_app.features.enhanced_cluster.registry import Seen


class Timing(NamedTuple):
    """The settings of the detection, in seconds and in numbers of heart-beats and looks."""

    heartbeat_s: float
    heartbeat_threshold: int
    monitor_s: float
    monitor_threshold: int
    lease_s: float

    @classmethod
    def of(cls, config: Config) -> Timing:
        """Those of a broker."""
        return cls(
            config.cluster_heartbeat_interval,
            config.cluster_heartbeat_threshold,
            config.cluster_monitor_interval,
            config.cluster_monitor_threshold,
            config.lease_s,
        )

    @property
    def suspect_s(self) -> float:
        """The age of the last heart-beat of a member that is suspect."""
        return self.heartbeat_s * self.heartbeat_threshold

    @property
    def worst_case_s(self) -> float:
        """The longest time from the end of a member until another begins to take over: both must have
        passed, the watch over a suspect, and its lease."""
        watched = self.suspect_s + self.heartbeat_s + self.monitor_s * self.monitor_threshold
        return max(watched, self.lease_s + max(self.heartbeat_s, self.monitor_s))


@dataclass
class Suspicion:
    """The holder of a journal that is suspect since `since` (seconds since 1970), after its heart-beats had
    been missing for `silent_s`; `looks` at it found none since."""

    holder: str
    epoch: int
    since: float
    silent_s: float
    looks: int = 0
    next_look: float = 0.0


class FailureDetector:
    """Compares what the registry has at each look. `clock` is in seconds."""

    def __init__(self, timing: Timing, clock: Callable[[], float] = time.monotonic) -> None:
        self._timing = timing
        self._clock = clock
        #: by journal
        self.suspicions: dict[str, Suspicion] = {}

    @property
    def interval_s(self) -> float:
        """Seconds until the next look."""
        timing = self._timing
        return min(timing.monitor_s, timing.heartbeat_s) if self.suspicions else timing.heartbeat_s

    def look(self, journals: Iterable[Seen]) -> None:
        """Take the notes of all journals that others serve."""
        suspicions: dict[str, Suspicion] = {}
        for seen in journals:
            note = seen.note
            found = self.suspicions.get(note.journal)
            if found is not None and (found.holder, found.epoch) != (note.holder, note.epoch):
                found = None
            if note.state == "serving" and seen.age_s >= self._timing.suspect_s:
                suspicions[note.journal] = self._watched(seen, found)
        self.suspicions = suspicions  # at once: reports are made in another thread

    def _watched(self, seen: Seen, found: Suspicion | None) -> Suspicion:
        note, now = seen.note, self._clock()
        if found is None:
            next_look = now + self._timing.monitor_s
            return Suspicion(note.holder, note.epoch, time.time(), seen.age_s, next_look=next_look)
        if now >= found.next_look:
            found.looks += 1
            found.next_look = now + self._timing.monitor_s
        return found

    def is_failed(self, journal: str) -> bool:
        """Return whether the holder of a journal was suspect in all looks."""
        found = self.suspicions.get(journal)
        return found is not None and found.looks >= self._timing.monitor_threshold
