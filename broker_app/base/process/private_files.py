"""Files readable only by their owner: what is written from now on, and what former versions wrote."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

#: the files of a broker in its data directory; others are not touched
_KEPT = (
    "config.sqlite3",
    "config.sqlite3-wal",
    "config.sqlite3-shm",
    "secret_key",
    "alerts.json",
    "callbacks.json",
    "jobs",
    "journal",
)
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def write_for_owner_alone() -> None:
    """Have all files and directories that this process makes closed to other users."""
    os.umask(_OTHERS)


def close_to_others(data: Path) -> list[Path]:
    """Take from other users what they may do with files of a data directory; those that were open to them.

    The directory itself stays as it is: who gave it, as a service manager does, may want its mode.
    """
    return [path for path in _kept(data) if _close(path)]


def _kept(data: Path) -> Iterator[Path]:
    for path in (data / name for name in _KEPT):
        if path.is_dir() and not path.is_symlink():
            yield path
            for folder, folders, files in os.walk(path):
                yield from (Path(folder, name) for name in folders + files)
        else:
            yield path


def _close(path: Path) -> bool:
    try:
        mode = path.lstat().st_mode
        if not mode & _OTHERS or stat.S_ISLNK(mode):
            return False
        path.chmod(stat.S_IMODE(mode) & ~_OTHERS)
    except FileNotFoundError:
        return False
    return True
