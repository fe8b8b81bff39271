"""Snapshot files: the complete state before a position; written atomically.

Two are kept, with the log behind the older one: so the loss of the newest costs nothing. A second snapshot at
the same position does not replace the first.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from broker_app.journal import codec
from broker_app.journal.errors import NoSpace
from broker_app.journal.files import Files
from broker_app.journal.port import FIRST_POSITION

KEPT = 2
_MAGIC = b"MOMSNAP\n"
_PREFIX, _SUFFIX, _SECOND = "snapshot-", ".snap", "-2"
_DIGITS = 20


class SnapshotFile(NamedTuple):
    """A snapshot on the disk; the older one is the smaller."""

    position: int
    name: str


def snapshot_name(position: int, *, second: bool = False) -> str:
    """The file of the snapshot at `position`, or of the second one there."""
    return f"{_PREFIX}{position:0{_DIGITS}d}{_SECOND if second else ''}{_SUFFIX}"


def snapshot_files(names: Iterable[str]) -> list[SnapshotFile]:
    """The snapshots among file names, the oldest first."""
    return sorted(
        SnapshotFile(int(name[len(_PREFIX) :][:_DIGITS]), name)
        for name in names
        if name.startswith(_PREFIX) and name.endswith(_SUFFIX)
    )


def write_snapshot(files: Files, position: int, parts: Sequence[bytes]) -> int:
    """Store a snapshot durably and drop those too old to be needed.

    Returns the position before which no replay will read, also if the newest snapshot should be damaged.
    """
    name = snapshot_name(position, second=snapshot_name(position) in files.names())
    head = codec.seal(_MAGIC, (position,), parts)
    try:
        files.replace(name, head, *parts)
    except NoSpace:
        if not _drop(files, keep=KEPT - 1):
            raise
        files.replace(name, head, *parts)
    files.sync_directory()
    _drop(files, keep=KEPT)
    return start_without_the_last(snapshot_files(files.names()))


def start_without_the_last(kept: Sequence[SnapshotFile]) -> int:
    """The position where a replay begins if the last of these snapshots cannot be read."""
    return kept[-KEPT].position if len(kept) >= KEPT else FIRST_POSITION


def _drop(files: Files, keep: int) -> bool:
    """Delete all but the newest snapshots; whether there were any to delete."""
    old = snapshot_files(files.names())[:-keep]
    for snapshot in old:
        files.remove(snapshot.name)
    return bool(old)


def read_snapshot(files: Files, snapshot: SnapshotFile) -> bytes | None:
    """The state that is stored, or None if the file is torn or damaged."""
    return decode_snapshot(snapshot, files.content(snapshot.name))


def decode_snapshot(snapshot: SnapshotFile, content: bytes) -> bytes | None:
    """The state in a snapshot file's content, or None if that is torn or damaged."""
    opened = codec.unseal(_MAGIC, 1, content)
    return opened[1] if opened is not None and opened[0] == [snapshot.position] else None
