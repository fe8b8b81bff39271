"""The progress of a process that starts: it may take as long as it likes while it computes."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

#: fields of /proc/PID/stat, behind the name of the process: ticks that it has computed, and the system for it
_USER, _SYSTEM = 11, 12


class StartWatch:
    """Notices when a process has computed nothing for `limit_s`. `cpu_s` returns for how many seconds it has
    computed; on systems that do not report it, that is always 0, and the limit is that of the whole start."""

    def __init__(self, limit_s: float, cpu_s: Callable[[], float], clock: Callable[[], float]) -> None:
        self._limit_s = limit_s
        self._cpu_s = cpu_s
        self._clock = clock
        self._computed_s = cpu_s()
        self._since = clock()

    def is_stalled(self) -> bool:
        """Return whether the process has made no progress for too long."""
        computed_s, now = self._cpu_s(), self._clock()
        if computed_s > self._computed_s:
            self._computed_s, self._since = computed_s, now
        return now - self._since > self._limit_s


def cpu_s(pid: int) -> float:
    """The seconds for which a process has computed; 0 where the system does not report them."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return 0.0
    fields = stat.rpartition(")")[2].split()
    return (int(fields[_USER]) + int(fields[_SYSTEM])) / os.sysconf("SC_CLK_TCK")
