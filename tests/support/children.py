"""Servers of tests end with the process that started them, however that ends: also by SIGKILL, which leaves
no time for fixtures."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
from collections.abc import Sequence
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
        super().__init__(command, preexec_fn=end_with_parent, **options)
