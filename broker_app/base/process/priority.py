"""The priority of processes that give way to brokers and their clients."""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import struct
import sys
import time
from typing import Final

#: the numbers of the system call sched_setattr, for which Python has no function
_SCHED_SETATTR: Final = {"x86_64": 314, "aarch64": 274}
#: struct sched_attr: size, policy, flags, niceness, priority, and runtime, deadline and period in ns
_ATTRIBUTES: Final = struct.Struct("=IIQiIQQQ")
_SLICE_NS: Final = 100_000_000
#: seconds for which it is waited for `nice`
_NICE_S: Final = 5.0


def lower_priority(pid: int, niceness: int) -> None:
    """Lower the priority of a process with a session of its own; `niceness` is added to that of this
    process."""
    with contextlib.suppress(OSError):  # it has ended already
        for thread in _threads(pid):
            os.setpriority(os.PRIO_PROCESS, thread, _beyond_ours(niceness))
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
    with contextlib.suppress(OSError):
        _lengthen_slice(pid)


def wait_for_nice(pid: int, niceness: int) -> None:
    """Wait until a process that was started by `nice` has its niceness; `lower_session_priority` would undo
    what `nice` does later."""
    until = time.monotonic() + _NICE_S
    with contextlib.suppress(OSError):  # it has ended already
        while os.getpriority(os.PRIO_PROCESS, pid) < _beyond_ours(niceness) and time.monotonic() < until:
            time.sleep(0.001)


def _lengthen_slice(pid: int) -> None:
    """Let processes with shorter slices take the processor away from this one when they wake up: Linux 6.12
    and later let it have its slice else, whatever its niceness. Earlier ones ignore it."""
    number = _SCHED_SETATTR.get(platform.machine())
    if number is None:
        return
    niceness = os.getpriority(os.PRIO_PROCESS, pid)
    attributes = _ATTRIBUTES.pack(_ATTRIBUTES.size, os.SCHED_BATCH, 0, niceness, 0, _SLICE_NS, 0, 0)
    ctypes.CDLL(None).syscall(number, pid, attributes, 0)


def _threads(pid: int) -> list[int]:
    """The ids of the threads of a process: Linux has a niceness for each."""
    return [int(name) for name in os.listdir(f"/proc/{pid}/task")] if sys.platform == "linux" else [pid]


def _beyond_ours(niceness: int) -> int:
    return min(os.getpriority(os.PRIO_PROCESS, 0) + niceness, 19)
