"""The content of a whole journal in any backend, as frames; for who holds its lock or its lease."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from typing import Protocol

from broker_app.journal import codec
from broker_app.journal.copy_mark import NOTE
from broker_app.journal.errors import JournalDamaged
from broker_app.journal.files import Files
from broker_app.journal.log import cursors, meta, recovery
from broker_app.journal.log.frame_loader import load_frame
from broker_app.journal.log.segment import Segment
from broker_app.journal.shared.shared_journal import missing_batch
from broker_app.journal.store import Grant, Store, StoredRow


class JournalContent(Protocol):
    """Raises the errors of the backend, and JournalDamaged for a frame that is not whole."""

    description: str
    identity: Grant

    def rows(self) -> Iterator[StoredRow]:
        """All frames by segment, each in the order of positions, without their content."""
        ...

    def frames(self, rows: Sequence[StoredRow]) -> Iterator[bytes]:
        """The frames of these rows, which are of one segment."""
        ...

    def log(self, position: int) -> Iterator[bytes]:
        """The frames of all batches from `position` on, without those of carry segments."""
        ...

    def snapshot(self) -> tuple[int, bytes] | None:
        """The newest snapshot and its position; None without one."""
        ...

    def notes(self) -> dict[str, bytes]:
        """The notes that brokers have left, by key."""
        ...


class FilesContent:
    """A journal in segment files. Raises JournalDamaged."""

    def __init__(self, files: Files) -> None:
        self.description = f"directory {files.directory}"
        self._files = files
        known = meta.read_meta(files)
        if known is None:
            raise JournalDamaged(
                f"{files.directory / meta.META} is missing; start the broker once with this data directory, "
                "and stop it: it writes the file again"
            )
        found = recovery.scan_directory(files)
        self.identity = Grant(max(known.epoch, found.epoch), known.tag, known.created_us)
        self._segments = {segment.sequence: segment for segment in found.segments}
        self._snapshot = None if found.snapshot is None else (found.snapshot_position, found.snapshot)

    def rows(self) -> Iterator[StoredRow]:
        """See `JournalContent.rows`."""
        for sequence in sorted(self._segments):
            yield from _rows_of(self._segments[sequence])

    def frames(self, rows: Sequence[StoredRow]) -> Iterator[bytes]:
        """See `JournalContent.frames`."""
        segment = self._segments[rows[0].segment]
        with closing(self._files.open(segment.name)) as file:
            for row in rows:
                _, content = load_frame(file, segment.frame(segment.batch_of(row.first_position)))
                yield content

    def log(self, position: int) -> Iterator[bytes]:
        """See `JournalContent.log`."""
        for _, segment in sorted(self._segments.items()):
            if segment.kind == codec.LOG and segment.next_position > position:
                rows = [row for row in _rows_of(segment) if row.first_position >= position]
                yield from self.frames(rows)

    def snapshot(self) -> tuple[int, bytes] | None:
        """See `JournalContent.snapshot`."""
        return self._snapshot

    def notes(self) -> dict[str, bytes]:
        """See `JournalContent.notes`: the cursors; brokers that share no journal leave no others."""
        content = cursors.FileDocument(self._files).read()
        return {} if content is None else {cursors.NOTE: content}


def _rows_of(segment: Segment) -> Iterator[StoredRow]:
    for number, first_position in enumerate(segment.batch_positions):
        start, end = segment.slots_of_batch(number)
        positions = None if segment.positions is None else segment.positions[start:end]
        yield StoredRow(
            segment.sequence, first_position, end - start, segment.frame_length(number), positions
        )


class StoreContent:
    """A journal in a store, by its holder. `check` raises when the lease was lost."""

    def __init__(self, store: Store, identity: Grant, check: Callable[[], None]) -> None:
        self.description = store.description
        self.identity = identity
        self._store = store
        self._check = check

    def rows(self) -> Iterator[StoredRow]:
        """See `JournalContent.rows`."""
        return self._store.rows()

    def frames(self, rows: Sequence[StoredRow]) -> Iterator[bytes]:
        """See `JournalContent.frames`."""
        self._check()
        keys = [(row.segment, row.first_position) for row in rows]
        found = self._store.load(keys)
        for key in keys:
            content = found.get(key)
            if content is None or not _is_whole(content):
                raise missing_batch(self._store, key[1])
            yield content

    def log(self, position: int) -> Iterator[bytes]:
        """See `JournalContent.log`."""
        for content in self._store.frames(position):
            self._check()
            yield content

    def snapshot(self) -> tuple[int, bytes] | None:
        """See `JournalContent.snapshot`."""
        return self._store.snapshot()

    def notes(self) -> dict[str, bytes]:
        """See `JournalContent.notes`."""
        return {key: note.content for key, note in self._store.notes("").items() if key != NOTE}


def _is_whole(content: bytes) -> bool:
    frame = codec.decode_frame(content, 0)
    return frame is not None and codec.is_whole(content, 0, frame)
