"""The priority of processes that give way to brokers and their clients."""

from __future__ import annotations

import contextlib
import os
import sys


def lower_priority(pid: int, niceness: int) -> None:
    """Lower the priority of a process that has just been started in a session of its own; `niceness` is
    added to that of this process."""
    with contextlib.suppress(OSError):  # it has ended already
        os.setpriority(os.PRIO_PROCESS, pid, _beyond_ours(niceness))
    lower_session_priority(pid, niceness)


def lower_session_priority(pid: int, niceness: int) -> None:
    """Lower the priority of the session of a process, which has its niceness already."""
    if sys.platform != "linux":
        return
    # Linux may share out processors by session; then niceness counts only among the processes of one.
    with contextlib.suppress(OSError), open(f"/proc/{pid}/autogroup", "w") as group:
        group.write(str(_beyond_ours(niceness)))
    # Else it takes the processor away from the process that wakes it, such as a broker with a call.
    with contextlib.suppress(OSError):
        os.sched_setscheduler(pid, os.SCHED_BATCH, os.sched_param(0))


def _beyond_ours(niceness: int) -> int:
    return min(os.getpriority(os.PRIO_PROCESS, 0) + niceness, 19)
