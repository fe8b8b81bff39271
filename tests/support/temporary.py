"""Temporary directories that are removed by the process that makes them, or by a later run of tests.

A process that is killed leaves its directories. Their names have its number, mom-KIND-PID-…, so that the next
run knows whose they were.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import tempfile
from itertools import chain, islice
from pathlib import Path

_NAME = re.compile(r"mom-[a-z]+-([1-9]\d{0,9})-\w+")
#: so many are removed by one run: it is to begin in seconds
_MOST = 200


#: a file system in memory, which nothing waits for as for a disk, and the bytes that must be free there
_MEMORY, _ROOM = Path("/dev/shm"), 4 * 1024**3
IN_MEMORY = True


def temporary_directory(kind: str, *, in_memory: bool = False) -> tempfile.TemporaryDirectory[str]:
    """A new directory of this process; `kind` is a word of small letters. It is in memory if that is asked
    for and there is room."""
    has_room = in_memory and _MEMORY.is_dir() and shutil.disk_usage(_MEMORY).free > _ROOM
    return tempfile.TemporaryDirectory(prefix=f"mom-{kind}-{os.getpid()}-", dir=_MEMORY if has_room else None)


def sweep() -> None:
    """Remove directories of this user whose process has ended, and nothing else."""
    folders = [Path(tempfile.gettempdir()), *([_MEMORY] if _MEMORY.is_dir() else [])]
    places = chain.from_iterable(folder.iterdir() for folder in folders)
    for place in islice(filter(_is_left, places), _MOST):
        shutil.rmtree(place, ignore_errors=True)


def _is_left(place: Path) -> bool:
    """Return whether a process that has ended made this. Where its number is another process's now, the
    directory stays for a later run."""
    name = _NAME.fullmatch(place.name)
    if name is None or Path("/proc", name[1]).exists():
        return False
    try:
        found = place.lstat()
    except FileNotFoundError:  # another run removes it, too
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid()
