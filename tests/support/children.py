"""Servers of tests end with the process that started them, however that ends: also by SIGKILL, which leaves
no time for fixtures."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from pathlib import Path
from typing import Any

_PR_SET_PDEATHSIG = 1
_CLONE_NEWNET = 0x40000000
#: that of the thread that opens it
NETWORK = Path("/proc/thread-self/ns/net")
_libc = ctypes.CDLL(None, use_errno=True)


def end_with_parent() -> None:
    """Have the kernel kill this process when the thread that forked it ends. Raises OSError."""
    if _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl")


def enter_network(network: int) -> None:
    """Move this thread to the network of an open file, unless it is there. Raises OSError."""
    if os.fstat(network).st_ino != NETWORK.stat().st_ino and _libc.setns(network, _CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "setns")


class Child(subprocess.Popen[Any]):
    """A process that does not outlive its parent, in the network of the thread that starts it; everything
    else is as in `subprocess`."""

    def __init__(self, command: Sequence[str | os.PathLike[str]], **options: Any) -> None:
        with NETWORK.open("rb") as network:
            start = partial(self._start, command, network.fileno(), **options)
            _starter(os.getpid()).submit(start).result()

    def _start(self, command: Sequence[str | os.PathLike[str]], network: int, **options: Any) -> None:
        def prepare() -> None:
            end_with_parent()
            enter_network(network)

        super().__init__(command, preexec_fn=prepare, **options)


@cache
def _starter(_: int) -> ThreadPoolExecutor:
    """The thread of a process that starts its children. It lasts: the thread of a test's loop would end them
    with the loop, and the program that forks brokers, which the first test starts, is for all that follow."""
    return ThreadPoolExecutor(1, "children")
