"""Processes that are killed at each change of their files."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

#: events of Python before files change; the first argument is a path
_CHANGES = {"open", "os.rename", "os.remove", "os.mkdir", "os.link", "os.rmdir"}


def killed_before(change: int, root: Path, action: Callable[[], object]) -> bool:
    """Run an action in a process of its own, which SIGKILL ends before its change of files below `root` with
    this number, from 1 on; False when it ended before. Folders that are opened to be synced count, too."""
    process = os.fork()
    if not process:
        try:
            sys.addaudithook(_Killer(change, root).hear)
            action()
        except BaseException:
            sys.excepthook(*sys.exc_info())  # type: ignore[arg-type]
            os._exit(1)
        os._exit(0)
    status = os.waitpid(process, 0)[1]
    killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
    assert killed or status == 0, "the action failed; its process printed why"
    return killed


class _Killer:
    """Counts the changes."""

    def __init__(self, change: int, root: Path) -> None:
        self._left, self._root = change, str(root)

    def hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event in _CHANGES and str(arguments[0]).startswith(self._root):
            self._left -= 1
            if not self._left:
                os.kill(os.getpid(), signal.SIGKILL)
