"""Detection of failures: a member whose heart-beats are missing is suspect, and has failed if it stays so
while it is watched.

A heart-beat is the note that each member writes into the registry; its age is by the clock of the store.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

from broker_app.config import Config
from broker_app.features.enhanced_cluster.registry import Seen

#: the part of a heart-beat's interval for which a heart-beat may be late, before a look is made because of it
_LATE: Final = 0.25
#: the least seconds between two looks
PAUSE_S: Final = 0.01


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
        passed, the watch over a suspect, and its lease. A look is due as soon as that may be so, not up to an
        interval later: the interval is for what reads of the store take, and for delays."""
        watched = self.suspect_s + self.heartbeat_s + self.monitor_s * self.monitor_threshold
        return max(watched, self.lease_s + max(self.heartbeat_s, self.monitor_s))


@dataclass
class Suspicion:
    """The holder of a journal that is suspect since `since` (seconds since 1970), after its heart-beats had
    been missing for `silent_s`; `looks` at it found none since. The next one is due at `next_look`, by the
    clock of the detector."""

    holder: str
    epoch: int
    since: float
    silent_s: float
    looks: int = 0
    next_look: float = 0.0


class FailureDetector:
    """Compares what the registry has at each look, and shows when the next one is due. `clock` is in
    seconds."""

    def __init__(self, timing: Timing, clock: Callable[[], float] = time.monotonic) -> None:
        self._timing = timing
        self._clock = clock
        #: by journal
        self.suspicions: dict[str, Suspicion] = {}
        self._due = math.inf

    def wait_s(self, begun: float) -> float:
        """Seconds until the next look, after one that was `begun` then. Without that look, because the store
        did not answer, it is that of a heart-beat."""
        due, self._due = min(self._due, begun + self._timing.heartbeat_s), math.inf
        return max(PAUSE_S, due - self._clock())

    def look(self, journals: Iterable[Seen]) -> None:
        """Take the notes of all journals that others serve."""
        suspicions: dict[str, Suspicion] = {}
        self._due = math.inf
        for seen in journals:
            note, left_s = seen.note, self._timing.suspect_s - seen.age_s
            found = self.suspicions.get(note.journal)
            if found is not None and (found.holder, found.epoch) != (note.holder, note.epoch):
                found = None
            if note.state != "serving":
                continue
            if left_s > 0:
                self.look_in(left_s + _LATE * self._timing.heartbeat_s)
                continue
            suspicions[note.journal] = watched = self._watched(seen, found)
            self._due = min(self._due, watched.next_look)
        self.suspicions = suspicions  # at once: reports are made in another thread

    def look_in(self, seconds: float) -> None:
        """Have the next look not later than that."""
        self._due = min(self._due, self._clock() + seconds)

    def _watched(self, seen: Seen, found: Suspicion | None) -> Suspicion:
        note, now, monitor_s = seen.note, self._clock(), self._timing.monitor_s
        if found is None:
            return Suspicion(note.holder, note.epoch, time.time(), seen.age_s, next_look=now + monitor_s)
        if now >= found.next_look:
            found.looks += 1
            # One that was late delays no other, and one that was missed is not made up for.
            found.next_look += monitor_s
            if found.next_look <= now:
                found.next_look = now + monitor_s
        return found

    def is_failed(self, journal: str) -> bool:
        """Return whether the holder of a journal was suspect in all looks."""
        found = self.suspicions.get(journal)
        return found is not None and found.looks >= self._timing.monitor_threshold
