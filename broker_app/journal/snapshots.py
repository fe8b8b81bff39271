"""Snapshot files: the state of everything before a position, whole or not at all."""

from collections.abc import Iterable, Sequence

from broker_app.journal import codec
from broker_app.journal.errors import NoSpace
from broker_app.journal.files import Files

KEPT = 2  # the newest, and its predecessor in case the newest is found damaged
_MAGIC = b"MOMSNAP\n"


def snapshot_name(position: int) -> str:
    """The file of the snapshot at `position`."""
    return f"snapshot-{position:020d}.snap"


def snapshot_positions(names: Iterable[str]) -> list[int]:
    """The positions of the snapshots among file names, ascending."""
    return sorted(
        int(name[9:-5]) for name in names if name.startswith("snapshot-") and name.endswith(".snap")
    )


def write_snapshot(files: Files, position: int, parts: Sequence[bytes]) -> list[int]:
    """Store a snapshot durably, drop those too old to be needed; the positions of those kept."""
    head = codec.seal(_MAGIC, (position,), parts)
    try:
        files.replace(snapshot_name(position), head, *parts)
    except NoSpace:
        if not _drop(files, keep=KEPT - 1):
            raise
        files.replace(snapshot_name(position), head, *parts)
    files.sync_directory()
    _drop(files, keep=KEPT)
    return snapshot_positions(files.names())


def _drop(files: Files, keep: int) -> bool:
    """Delete all but the newest snapshots; whether there were any to delete."""
    old = snapshot_positions(files.names())[:-keep]
    for position in old:
        files.remove(snapshot_name(position))
    return bool(old)


def read_snapshot(files: Files, position: int) -> bytes | None:
    """The state stored at `position`, or None if the file is torn or damaged."""
    return decode_snapshot(position, files.content(snapshot_name(position)))


def decode_snapshot(position: int, content: bytes) -> bytes | None:
    """The state in a snapshot file's content, or None if that is torn or damaged."""
    opened = codec.unseal(_MAGIC, 1, content)
    return opened[1] if opened is not None and opened[0] == [position] else None
