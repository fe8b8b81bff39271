"""How much longer than usual this machine takes, which the deadlines of tests are multiplied by.

It is measured at the start of each process of tests. A start computes nearly all the time: on a quiet machine
it takes as long as it computes, and on a busy one as many times longer as everything else does.
"""

import os
import time
from pathlib import Path


def _age_s() -> float:
    """Seconds since this process began."""
    begun_ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
    return time.clock_gettime(time.CLOCK_BOOTTIME) - begun_ticks / os.sysconf("SC_CLK_TCK")


#: 1 on a quiet machine
SLOWNESS = max(1.0, _age_s() / max(0.1, time.process_time()))


def patient(seconds: float) -> float:
    """A deadline for what takes less than so many seconds on a quiet machine."""
    return seconds * SLOWNESS
