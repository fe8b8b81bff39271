"""Files that take long to make, made once in a run for all its processes.

The directory for them is that of the process that distributes tests; a process alone has its own.
"""

from __future__ import annotations

import atexit
import fcntl
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

from tests.support.temporary import temporary_directory

#: variable with the directory that processes share
_PLACE = "MADE_ONCE"


def share() -> None:
    """Let the processes that this one starts use what one of them makes."""
    os.environ[_PLACE] = str(_own())


def made_once(name: str, make: Callable[[Path], None]) -> Path:
    """The directory of this name, whose parent others may enter. The first process that asks for it has
    `make` create it."""
    place = Path(os.environ.get(_PLACE) or _own())
    made = place / name
    with (place / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists():
            unfinished = Path(mkdtemp(dir=place))
            unfinished.chmod(0o755)
            make(unfinished / name)
            (unfinished / name).rename(made)
    return made


@cache
def _own() -> Path:
    folder = temporary_directory("made")
    atexit.register(folder.cleanup)
    Path(folder.name).chmod(0o755)
    return Path(folder.name)
