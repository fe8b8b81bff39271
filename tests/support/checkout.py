"""The files of this repository."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatch
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
#: folders of what is installed or compiled, next to those whose name begins with a point
_MADE = {"__pycache__", "node_modules"}


def _by_git() -> list[str] | None:
    """The files as git has them, and new ones; None in a copy without git."""
    git = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(git, cwd=ROOT, capture_output=True, text=True, check=False)
    return listed.stdout.splitlines() if listed.returncode == 0 else None


#: listed when this is imported: the tests that look at files have no mark `process`, and may start none
_BY_GIT = _by_git()


def files(*patterns: str) -> list[str]:
    """The files that match, as git has them, or, in a copy without git, as they are there.

    A pattern is the name of a folder, or has stars, which stand for slashes, too.
    """
    return _matching(_all() if _BY_GIT is None else _BY_GIT, patterns)


def found(*patterns: str) -> list[str]:
    """The files that match, with those that are made from others."""
    return _matching(_all(), patterns)


def _matching(names: Iterable[str], patterns: Sequence[str]) -> list[str]:
    return [
        name
        for name in names
        if any(fnmatch(name, pattern) or name.startswith(f"{pattern}/") for pattern in patterns)
    ]


def _all() -> Iterator[str]:
    for folder, folders, names in os.walk(ROOT):
        folders[:] = [name for name in folders if name not in _MADE and not name.startswith(".")]
        yield from (Path(folder, name).relative_to(ROOT).as_posix() for name in names)
