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
from typing import Any

_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)


def end_with_parent() -> None:
    """Have the kernel kill this process when the thread that forked it ends. Raises OSError."""
    if _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl")


class Child(subprocess.Popen[Any]):
    """A process that does not outlive its parent; everything else is as in `subprocess`."""

    def __init__(self, command: Sequence[str | os.PathLike[str]], **options: Any) -> None:
        start = partial(super().__init__, command, preexec_fn=end_with_parent, **options)
        _starter(os.getpid()).submit(start).result()


@cache
def _starter(_: int) -> ThreadPoolExecutor:
    """The thread of a process that starts its children. It lasts: the thread of a test's loop would end them
    with the loop, and the program that forks brokers, which the first test starts, is for all that follow."""
    return ThreadPoolExecutor(1, "children")
