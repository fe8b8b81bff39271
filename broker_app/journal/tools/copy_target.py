"""The journal that a copy goes into: marked as incomplete from `begin` to `complete`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Final, NamedTuple, Protocol

from broker_app.journal import codec, copy_mark
from broker_app.journal.copy_mark import CopyMark
from broker_app.journal.errors import JournalError
from broker_app.journal.files import File, Files
from broker_app.journal.log import meta, snapshots
from broker_app.journal.log.cursors import NOTE, FileDocument
from broker_app.journal.log.segment import draw_segment_id, segment_name
from broker_app.journal.store import Carried, Grant, LogBatch, Store, StoredRow
from broker_app.journal.tools.content import FilesContent, JournalContent, StoreContent
from broker_app.journal.tools.holding import StoreHold

#: bytes of frames that are stored at a time
RUN_BYTES: Final = 4 * 1024 * 1024


class JournalExists(JournalError):
    """The place that a copy should go to contains a journal."""


class StoredFrame(NamedTuple):
    """A frame with its place."""

    row: StoredRow
    content: bytes


class CopyTarget(Protocol):
    """Call order: `check`, `begin`, `write` for each segment, `finish`, and `complete` when the copy that
    `content` returns has been checked."""

    description: str

    def check(self, mark: CopyMark) -> None:
        """Raise JournalExists unless this place is empty, or an interrupted copy of the same journal."""
        ...

    def begin(self, mark: CopyMark, identity: Grant) -> None:
        """Mark this place as incomplete, and delete what an interrupted copy has left."""
        ...

    def write(self, segment: int, frames: Iterator[StoredFrame]) -> None:
        """Store the frames of a segment durably; there is one at least."""
        ...

    def finish(self, snapshot: tuple[int, bytes] | None, notes: Mapping[str, bytes]) -> int:
        """Store the rest. Returns the number of notes that this backend cannot keep."""
        ...

    def content(self) -> JournalContent:
        """The copy, as it can be read back."""
        ...

    def complete(self) -> None:
        """Remove the mark: brokers may use the journal."""
        ...


def _check_mark(found: CopyMark, wanted: CopyMark, place: str) -> None:
    """Raise JournalExists unless an interrupted copy is of the journal that is to be copied now."""
    if found.tag != wanted.tag:
        raise JournalExists(
            f"{place} contains an interrupted copy of another journal, {found.origin}; repeat that copy, or "
            "delete what it has left, or name another place"
        )


class FilesTarget:
    """A directory of segment files, whose lock is held."""

    def __init__(self, files: Files) -> None:
        self.description = f"directory {files.directory}"
        self._files = files
        self._identity = Grant(0, 0, 0)

    def check(self, mark: CopyMark) -> None:
        """See `CopyTarget.check`."""
        left = copy_mark.mark_in_files(self._files)
        if left is not None:
            _check_mark(left, mark, self.description)
        elif self._names():
            raise JournalExists(
                f"{self.description} contains a journal, or other files; name another data directory, or "
                "move that one away"
            )

    def _names(self) -> list[str]:
        return [name for name in self._files.names() if name not in (meta.LOCK, copy_mark.FILE)]

    def begin(self, mark: CopyMark, identity: Grant) -> None:
        """See `CopyTarget.begin`."""
        self._files.replace(copy_mark.FILE, mark.encode())
        for name in self._names():
            self._files.remove(name)
        self._files.sync_directory()
        self._identity = identity

    def write(self, segment: int, frames: Iterator[StoredFrame]) -> None:
        """See `CopyTarget.write`."""
        first = next(frames)
        kind = codec.LOG if first.row.positions is None else codec.CARRY
        name = segment_name(kind, segment)
        with self._files.draft(f"{name}.new") as file:
            self._write(file, codec.SegmentHeader(kind, draw_segment_id(), segment), chain([first], frames))
            file.sync()
            self._files.rename(f"{name}.new", name)
        self._files.sync_directory()

    def _write(self, file: File, header: codec.SegmentHeader, frames: Iterator[StoredFrame]) -> None:
        at, positions = codec.SEGMENT_HEADER_BYTES, [0, 0]
        for row, content in frames:
            if row.positions is not None:
                positions = [positions[0] or row.positions[0], row.positions[-1] + 1]
            file.write((codec.with_segment_id(content, header.segment_id),), at)
            at += len(content)
        header = codec.SegmentHeader(header.kind, header.segment_id, header.sequence, *positions)
        file.write((codec.encode_segment_header(header),), 0)

    def finish(self, snapshot: tuple[int, bytes] | None, notes: Mapping[str, bytes]) -> int:
        """See `CopyTarget.finish`. Files have no place for other notes than the cursors."""
        if snapshot is not None:
            for _ in range(snapshots.KEPT):  # as a broker leaves it: the loss of the newest costs nothing
                snapshots.write_snapshot(self._files, snapshot[0], [snapshot[1]])
        epoch, tag, created_us = self._identity
        meta.advance(self._files, meta.Meta(epoch, tag, created_us), epoch, created_us)
        if NOTE in notes:
            FileDocument(self._files).write(notes[NOTE])
        return len(notes) - (NOTE in notes)

    def content(self) -> JournalContent:
        """See `CopyTarget.content`."""
        return FilesContent(self._files)

    def complete(self) -> None:
        """See `CopyTarget.complete`."""
        self._files.remove(copy_mark.FILE)
        self._files.sync_directory()


class StoreTarget:
    """A store whose lease is held, and not renewed yet."""

    def __init__(self, store: Store, hold: StoreHold) -> None:
        self.description = store.description
        self._store = store
        self._hold = hold

    def check(self, mark: CopyMark) -> None:
        """See `CopyTarget.check`."""
        left = copy_mark.mark_in_store(self._store)
        if left is not None:
            _check_mark(left, mark, self.description)
        elif next(self._store.rows(), None) is not None or self._store.snapshot_position() is not None:
            raise JournalExists(
                f"{self.description} contains a journal; name another broker with --name, or another place, "
                "or delete that journal"
            )

    def begin(self, mark: CopyMark, identity: Grant) -> None:
        """See `CopyTarget.begin`."""
        self._store.put_note(copy_mark.NOTE, mark.encode())
        self._hold.grant = self._store.adopt(identity)
        self._hold.keep()  # only now: the epoch of the lease has changed
        for segment in list(dict.fromkeys(row.segment for row in self._store.rows())):
            self._store.delete([segment])  # one at a time: stores limit the time of a call

    def write(self, segment: int, frames: Iterator[StoredFrame]) -> None:
        """See `CopyTarget.write`."""
        first = next(frames)
        every = chain([first], frames)
        if first.row.positions is None:
            for run in _runs(segment, every):
                self._hold.check()
                self._store.append_all(segment, run)
        else:
            self._store.carry(segment, [_carried(segment, frame) for frame in every], [])

    def finish(self, snapshot: tuple[int, bytes] | None, notes: Mapping[str, bytes]) -> int:
        """See `CopyTarget.finish`."""
        if snapshot is not None:
            self._store.put_snapshot(snapshot[0], [snapshot[1]])
        for key, content in notes.items():
            self._store.put_note(key, content)
        return 0

    def content(self) -> JournalContent:
        """See `CopyTarget.content`."""
        return StoreContent(self._store, self._hold.grant, self._hold.check)

    def complete(self) -> None:
        """See `CopyTarget.complete`."""
        self._hold.check()
        self._store.drop_note(copy_mark.NOTE)


def _runs(segment: int, frames: Iterator[StoredFrame]) -> Iterator[Sequence[LogBatch]]:
    """Batches, as many at a time as are stored at once."""
    run: list[LogBatch] = []
    size = 0
    for row, content in frames:
        run.append(LogBatch(row.first_position, row.records, codec.with_segment_id(content, segment)))
        size += len(content)
        if size >= RUN_BYTES:
            yield run
            run, size = [], 0
    if run:
        yield run


def _carried(segment: int, frame: StoredFrame) -> Carried:
    assert frame.row.positions is not None
    content = codec.with_segment_id(frame.content, segment)
    return Carried(frame.row.first_position, frame.row.positions, content)
