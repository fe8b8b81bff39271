"""Names in a journal's directory that brokers share, see `file_store`."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import Final

from broker_app.journal.errors import JournalFailed, NoSpace
from broker_app.journal.files import File, Files

EPOCH, LEASE, SNAPSHOT = "epoch-", "lease", "snapshot"
LOG, CARRY, DRAFT = ".log", ".carry", ".new"
#: behind the name of a journal that is deleted: no journal has it in its name, which is quoted
GONE: Final = "+"
_DIGITS: Final = 20


def epoch_name(epoch: int) -> str:
    """The name of the directory of an epoch."""
    return f"{EPOCH}{epoch:0{_DIGITS}d}"


def segment_name(number: int, suffix: str) -> str:
    """The name of a segment's file."""
    return f"{number:0{_DIGITS}d}{suffix}"


def epoch_of(home: Files) -> int:
    """The epoch of a directory."""
    return int(home.directory.name.removeprefix(EPOCH))


def newest_epoch(files: Files) -> Files | None:
    """The directory of the last holder."""
    if not files.directory.exists():
        return None
    names = [name for name in files.names() if name.startswith(EPOCH)]
    return Files(files.directory / names[-1]) if names else None


def is_current(home: Files) -> bool:
    """True while no other broker has taken this directory over."""
    return (home.directory / LEASE).exists()


def segments(home: Files) -> list[tuple[int, str]]:
    """The numbers and names of all segments, in order."""
    return [(int(name.partition(".")[0]), name) for name in home.names() if name.endswith((LOG, CARRY))]


@contextlib.contextmanager
def opened(home: Files, name: str) -> Iterator[File]:
    """A file, closed at the end."""
    file = home.open(name)
    try:
        yield file
    finally:
        file.close()


def sync(file: File) -> None:
    """Make a file durable. A failure is final: the system may have dropped what it could not write."""
    try:
        file.sync()
    except NoSpace as error:
        raise JournalFailed(str(error)) from error


def delete_segments(home: Files, numbers: Iterable[int]) -> None:
    """Delete segments, those that are there."""
    for number in numbers:
        for suffix in (LOG, CARRY):
            home.remove(segment_name(number, suffix))
