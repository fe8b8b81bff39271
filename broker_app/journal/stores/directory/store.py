"""A journal's store in a directory that brokers share: on one machine, or on a shared file system.

    mom_journal_NAME/
      journal.json          format, tag, time of creation
      epoch-N/              of the holder with epoch N; renamed by each takeover
        lease               its holder and epoch; renewing it changes its time of modification
        S.log, S.carry      segments of rows (`file_rows`); a carry segment begins with those it replaces
        snapshot
      notes/KEY
    mom_journal_NAME+ID/    of a holder that erases the journal

**Fencing is the rename of the directory.** What a former holder creates, renames or deletes, it names by the
old path, which is gone. It may still append to the last segment, which it has open: the taker has replaced
that by a copy. After each append the holder looks whether its directory is still there, before anything is
confirmed.
"""

from __future__ import annotations

import contextlib
import glob
import json
import os
import random
import shutil
import time
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final
from urllib.parse import quote
from uuid import uuid4

from broker_app.journal import codec
from broker_app.journal.errors import JournalDamaged, JournalFailed, NoSpace
from broker_app.journal.files import File, Files
from broker_app.journal.log import free_space
from broker_app.journal.log.meta import TAG_BITS
from broker_app.journal.port import FIRST_POSITION
from broker_app.journal.store import (
    Carried,
    Fenced,
    Grant,
    Holder,
    LeaseHeld,
    LeaseState,
    LogBatch,
    LogExtent,
    Note,
    StoredRow,
    StoreFull,
    Unreachable,
)
from broker_app.journal.stores.directory.extent import ExtentReader
from broker_app.journal.stores.directory.layout import (
    CARRY,
    DRAFT,
    GONE,
    LEASE,
    LOG,
    SNAPSHOT,
    delete_segments,
    epoch_name,
    epoch_of,
    is_current,
    newest_epoch,
    opened,
    segment_name,
    segments,
    sync,
)
from broker_app.journal.stores.directory.notes import FileClock, FileNotes, unique_draft
from broker_app.journal.stores.directory.rows import FileRow, encode_row, rows_of
from broker_app.journal.stores.directory.tail import ATTEMPTS, LogTail
from broker_app.journal.stores.directory.takeover import clean

FORMAT: Final = 1
_IDENTITY, _NOTES = "journal.json", "notes"
_SNAPSHOT_MAGIC: Final = b"MOMSHARE"
_POSITION_AT: Final = len(_SNAPSHOT_MAGIC) + 4
_POSITION_END: Final = _POSITION_AT + 8
#: the time of modification of a lease that its holder has given back (s since 1970)
_RELEASED_AT: Final = 0
#: seconds after which a broker that has renamed the directory, and has written no lease, is given up
_TAKING_S: Final = 3.0


class _Offsets:
    """The frames of one segment by first position; read in one thread while another appends."""

    def __init__(self) -> None:
        self._positions = array("Q")
        self._at = array("Q")
        self._sizes = array("Q")

    def add(self, row: FileRow) -> None:
        self._sizes.append(row.size)
        self._at.append(row.frame_at)
        self._positions.append(row.first_position)

    def find(self, first_position: int) -> tuple[int, int] | None:
        """The offset and size of a frame."""
        number = bisect_left(self._positions, first_position)
        if number == len(self._positions) or self._positions[number] != first_position:
            return None
        return self._at[number], self._sizes[number]


class _Log:
    """The segment that is being written."""

    def __init__(self, number: int, file: File) -> None:
        self.number = number
        self.file = file
        self.end = 0
        self.last_position = 0


class FileStore:
    """See `store.Store` for the promises. `directory` may hold the journals of several brokers."""

    def __init__(self, directory: Path, journal: str) -> None:
        self._files = Files(directory / f"mom_journal_{quote(journal, safe='')}")
        self._notes = FileNotes(Files(self._files.directory / _NOTES))
        self._clock = FileClock(self._files)
        self._tail = LogTail(self._files)
        self._extents = ExtentReader(self._files)
        self.description = f"directory {self._files.directory}"
        self._home: Files | None = None
        self._epoch = 0
        self._granted = Holder(""), 0.0
        self._offsets: dict[int, _Offsets] = {}
        self._log: _Log | None = None

    @property
    def directory(self) -> Path:
        """The directory of this journal alone."""
        return self._files.directory

    # ------------------------------------------------------------------------------ lease

    def acquire(self, holder: Holder, lease_s: float, *, force: bool = False) -> Grant:
        """See `store.Store.acquire`."""
        self._files.create_directory()
        tag, created_us = self._identity()
        home, stopped = self._rename_next(force=force)
        try:
            self._files.sync_directory()
            _write_lease(home, holder, lease_s)
        except (JournalFailed, FileNotFoundError) as error:
            raise self._not_taken(home, error) from error
        self._home, self._epoch, self._granted = home, epoch_of(home), (holder, lease_s)
        with self._answering():
            clean(home, copy_last=not stopped)
        return Grant(self._epoch, tag, created_us)

    def _rename_next(self, *, force: bool) -> tuple[Files, bool]:
        """Make the directory of a lease that is free that of the next epoch: of several brokers, one can.

        Returns it, and whether its former holder has given the lease back. Raises LeaseHeld.
        """
        for _ in range(ATTEMPTS):
            former = newest_epoch(self._files) or self._first()
            home = Files(self._files.directory / epoch_name(epoch_of(former) + 1))
            try:
                # Of the directory that is renamed, and of no other one.
                with self._reachable():
                    state, stopped = self._lease_of(former), _is_released(former)
                if state is not None and state.left_s > 0 and not force:
                    raise LeaseHeld(state)
                self._files.rename(former.directory.name, home.directory.name)
            except (JournalFailed, FileNotFoundError):
                newest = newest_epoch(self._files)
                if is_current(former) and newest is not None and epoch_of(newest) == epoch_of(former):
                    raise
                continue  # another broker was faster, perhaps with a first directory of its own
            return home, stopped
        raise self._busy("the journal cannot be taken")

    def _not_taken(self, home: Files, error: Exception) -> Exception:
        """The error of a broker that has renamed the directory, and could not write its lease."""
        if isinstance(error, NoSpace):
            return StoreFull(str(error))
        state = self.lease() if not is_current(home) else None
        return LeaseHeld(state) if state is not None else error

    def _busy(self, what: str) -> JournalFailed:
        return JournalFailed(f"{self.description}: {what}: brokers take it over all the time")

    def adopt(self, origin: Grant) -> Grant:
        """See `store.Store.adopt`."""
        with self._answering() as home:
            epoch = max(self._epoch, origin.epoch)
            self._files.rename(home.directory.name, epoch_name(epoch))
            # The block ends with a look at the directory of this holder, which is the new one.
            home.directory = self._files.directory / epoch_name(epoch)
            self._epoch = epoch
            _write_lease(home, *self._granted)
            self._files.replace(_IDENTITY, _encode_identity(origin.tag, origin.created_us))
            self._files.sync_directory()
        return origin._replace(epoch=epoch)

    def _identity(self) -> tuple[int, int]:
        """The tag and the time of creation; drawn by the first broker. Raises JournalFailed."""
        if _IDENTITY not in self._files.names():
            tag = random.SystemRandom().getrandbits(TAG_BITS)
            content = _encode_identity(tag, time.time_ns() // 1000)
            with unique_draft(self._files, content) as draft:
                with contextlib.suppress(FileExistsError):
                    os.link(self._files.directory / draft, self._files.directory / _IDENTITY)
                self._files.remove(draft)
            self._files.sync_directory()
        return self._read_identity()

    def _read_identity(self) -> tuple[int, int]:
        """The tag and the time of creation, which are there. Raises JournalFailed and JournalDamaged."""
        try:
            found = json.loads(self._files.content(_IDENTITY))
            version, tag, created_us = found["format"], found["tag"], found["created_us"]
        except (ValueError, TypeError, KeyError) as error:
            raise JournalDamaged(
                f"{self._files.directory / _IDENTITY} does not say which journal this is ({error!r}): "
                "restore the file from a backup of the directory"
            ) from error
        if version != FORMAT:
            raise JournalFailed(
                f"{self.description} has format {version}; this version of MOM needs {FORMAT}: use "
                "the version that wrote it, or an empty directory"
            )
        return tag, created_us

    def _first(self) -> Files:
        """The directory of a journal that was never held, complete before it has its name."""
        draft = Files(self._files.directory / f"{uuid4().hex}{DRAFT}")
        draft.create_directory()
        draft.replace(LEASE, b"{}")
        _release(draft)
        with contextlib.suppress(JournalFailed):  # another broker was faster
            self._files.rename(draft.directory.name, epoch_name(0))
        found = newest_epoch(self._files)
        assert found is not None
        return found

    def renew(self, lease_s: float) -> None:
        """See `store.Store.renew`."""
        assert self._home is not None
        try:
            with self._reachable():
                os.utime(self._home.directory / LEASE)
        except FileNotFoundError:
            raise self._fenced() from None

    def release(self) -> None:
        """See `store.Store.release`."""
        if self._home is not None:
            with contextlib.suppress(OSError):
                _release(self._home)
        self._home, self._epoch = None, 0
        self._offsets.clear()
        self._tail.close()
        if self._log is not None:
            self._log.file.close()
            self._log = None
        self._clock.close()
        self._notes.close()

    def erase(self) -> None:
        """See `store.ErasableStore.erase`. The directory of the holder is moved away first: no other
        broker can do that, and none takes the journal over from then on."""
        home, parent = self._home, self._files.directory.parent
        if home is None:
            raise Fenced(f"{self.description}: this broker does not hold the journal")
        begins = f"{self._files.directory.name}{GONE}"
        with self._reachable():
            try:
                home.directory.rename(parent / f"{begins}{uuid4().hex}")
            except FileNotFoundError:
                raise self._fenced() from None
        self._home = None
        self.release()
        for path in (self._files.directory, *parent.glob(f"{glob.escape(begins)}*")):
            with self._reachable(), contextlib.suppress(FileNotFoundError):
                shutil.rmtree(path)
        Files(parent).sync_directory()

    def interrupt(self) -> None:
        """See `store.Store.interrupt`: calls to a file system cannot be interrupted."""

    def lease(self) -> LeaseState | None:
        """See `store.Store.lease`."""
        for _ in range(ATTEMPTS):
            home = newest_epoch(self._files)
            if home is None:
                return None
            with contextlib.suppress(FileNotFoundError), self._reachable():
                return self._lease_of(home)
        raise self._busy("the lease cannot be read")

    def tag(self) -> int | None:
        """See `store.Store.tag`."""
        home = newest_epoch(self._files)
        return self._read_identity()[0] if home is not None and epoch_of(home) else None

    def _lease_of(self, home: Files) -> LeaseState | None:
        # Opened, not only asked for: an NFS client may answer from its cache otherwise.
        with open(home.directory / LEASE, "rb") as file:
            found, modified = json.load(file), os.fstat(file.fileno()).st_mtime
        epoch = epoch_of(home)
        if found.get("epoch", epoch if found else 0) != epoch:
            # Another broker has renamed the directory, and is about to write its lease.
            left_s = _TAKING_S - (self._clock.now() - home.directory.stat().st_ctime)
            return LeaseState(Holder("another broker"), epoch, left_s)
        if not found:
            return None
        holder = Holder(found["holder"], found["address"])
        if modified == _RELEASED_AT:
            return LeaseState(holder, epoch, 0.0, is_released=True)
        return LeaseState(holder, epoch, found["lease_s"] - (self._clock.now() - modified))

    def _fenced(self) -> Fenced:
        """The error of a holder whose epoch has ended."""
        with contextlib.suppress(JournalFailed, OSError):
            state = self.lease()
            if state is not None:
                return Fenced(
                    f"{state.holder.name} at {state.holder.address} has taken over the journal in "
                    f"{self.description}: epoch {self._epoch} has ended"
                )
        return Fenced(f"{self.description} is gone: epoch {self._epoch} has ended")

    @contextlib.contextmanager
    def _reachable(self) -> Iterator[None]:
        """Raises Unreachable for errors of the file system, but for files that are not there."""
        try:
            yield
        except FileNotFoundError:
            raise
        except OSError as error:
            raise Unreachable(f"{self.description}: {error.strerror}") from error

    @contextlib.contextmanager
    def _answering(self) -> Iterator[Files]:
        """The directory of this holder. Raises Fenced when it is another's, StoreFull, JournalFailed."""
        home = self._home
        if home is None:
            raise Fenced(f"{self.description}: this broker does not hold the journal")
        try:
            yield home
        except (NoSpace, JournalFailed, FileNotFoundError) as error:
            if not is_current(home):
                raise self._fenced() from error
            if isinstance(error, NoSpace):
                raise StoreFull(str(error)) from error
            raise
        if not is_current(home):
            raise self._fenced()

    @contextlib.contextmanager
    def _reading(self) -> Iterator[Files]:
        """The same, and without the lease the directory of its holder. Raises Unreachable if that changes."""
        if self._home is not None:
            with self._answering() as held:
                yield held
            return
        home = newest_epoch(self._files)
        if home is None:
            raise Unreachable(f"{self.description}: there is no journal")
        try:
            yield home
        except FileNotFoundError as error:
            gone = Path(error.filename).name
            raise Unreachable(f"{self.description}: {gone} was deleted or moved meanwhile") from error

    # ------------------------------------------------------------------------------- log

    def rows(self) -> Iterator[StoredRow]:
        """See `store.Store.rows`."""
        with self._reading() as home:
            for number, name in segments(home):
                offsets = self._offsets[number] = _Offsets()
                with opened(home, name) as file:
                    rows = rows_of(file)
                    if name.endswith(CARRY):
                        next(rows, None)
                    for row in rows:
                        offsets.add(row)
                        yield StoredRow(number, row.first_position, row.records, row.size, row.positions)

    def append(self, segment: int, first_position: int, count: int, frame: bytes) -> None:
        """See `store.Store.append`."""
        self.append_all(segment, (LogBatch(first_position, count, frame),))

    def append_all(self, segment: int, batches: Sequence[LogBatch]) -> None:
        """See `store.Store.append_all`."""
        with self._answering() as home:
            log_file = self._log_of(home, segment)
            rows: list[FileRow] = []
            end = log_file.end
            try:
                for first_position, count, frame in batches:
                    if first_position <= log_file.last_position:
                        continue
                    pieces = encode_row(first_position, count, frame)
                    log_file.file.write(pieces, end)
                    end += sum(map(len, pieces))
                    rows.append(FileRow(first_position, count, None, end - len(frame), end))
            except JournalFailed:
                log_file.file.truncate(log_file.end)
                raise
            if not rows:
                return
            sync(log_file.file)
            offsets = self._offsets.setdefault(segment, _Offsets())
            for row in rows:
                offsets.add(row)
            log_file.end, log_file.last_position = end, rows[-1].first_position

    def _log_of(self, home: Files, segment: int) -> _Log:
        if self._log is None or self._log.number != segment:
            if self._log is not None:
                self._log.file.close()
                self._log = None
            self._log = _Log(segment, home.open(segment_name(segment, LOG), create=True))
            home.sync_directory()
        return self._log

    def frames(self, position: int) -> Iterator[bytes]:
        """See `store.Store.frames`."""
        return self._tail.frames(position)

    def extent(self) -> LogExtent | None:
        """See `store.Store.extent`."""
        found = self._extents.find()
        if found is None:
            return None
        epoch, low, end = found
        end = end or self.snapshot_position() or FIRST_POSITION
        return LogExtent(self._read_identity()[0], epoch, low or end, end)

    def batch_start(self, position: int) -> int | None:
        """See `store.Store.batch_start`."""
        return self._extents.batch_start(position)

    def load(self, keys: Iterable[tuple[int, int]]) -> dict[tuple[int, int], bytes]:
        """See `store.Store.load`."""
        found = {}
        with self._reading() as home, contextlib.ExitStack() as stack:
            files: dict[int, File] = {}
            for segment, first_position in keys:
                offsets = self._offsets.get(segment)
                place = None if offsets is None else offsets.find(first_position)
                if place is None:
                    continue
                if segment not in files:
                    file = _open_segment(home, segment)
                    if file is None:
                        continue
                    stack.callback(file.close)
                    files[segment] = file
                offset, size = place
                found[segment, first_position] = files[segment].read(size, offset)
        return found

    def carry(self, segment: int, carried: Sequence[Carried], sources: Sequence[int]) -> None:
        """See `store.Store.carry`."""
        name = segment_name(segment, CARRY)
        offsets, at = _Offsets(), 0
        with self._answering() as home:
            with home.draft(f"{name}{DRAFT}") as file:
                for one in (Carried(0, sources, b""), *carried):
                    pieces = encode_row(one.first_position, len(one.positions), one.frame, one.positions)
                    file.write(pieces, at)
                    at += sum(map(len, pieces))
                    if one.frame:
                        offsets.add(FileRow(one.first_position, 0, None, at - len(one.frame), at))
                sync(file)
                home.rename(f"{name}{DRAFT}", name)
            home.sync_directory()
            self._offsets[segment] = offsets
            self._delete(home, sources)

    def delete(self, segments: Sequence[int]) -> None:
        """See `store.Store.delete`."""
        with self._answering() as home:
            self._delete(home, segments)

    def _delete(self, home: Files, segments: Sequence[int]) -> None:
        for number in segments:
            self._offsets.pop(number, None)
        delete_segments(home, segments)

    # ------------------------------------------------------------------ snapshots and notes

    def snapshot(self) -> tuple[int, bytes] | None:
        """See `store.Store.snapshot`. Raises JournalDamaged."""
        sealed = self._read_snapshot(None)
        if sealed is None:
            return None
        found = codec.unseal(_SNAPSHOT_MAGIC, 1, sealed)
        if found is None:
            raise JournalDamaged(
                f"{self.description}: the snapshot is damaged; restore the directory from a backup, or start "
                "with an empty journal"
            )
        (position,), content = found
        return position, content

    def snapshot_position(self) -> int | None:
        """See `store.Store.snapshot_position`."""
        head = self._read_snapshot(_POSITION_END)
        return None if head is None else int.from_bytes(head[_POSITION_AT:_POSITION_END], "little")

    def _read_snapshot(self, size: int | None) -> bytes | None:
        for _ in range(ATTEMPTS):
            home = newest_epoch(self._files)
            if home is None:
                return None
            try:
                if SNAPSHOT not in home.names():
                    return None
                return home.content(SNAPSHOT, size)
            except JournalFailed:
                if is_current(home):
                    raise
        raise self._busy("the snapshot cannot be read")

    def put_snapshot(self, position: int, parts: Sequence[bytes]) -> None:
        """See `store.Store.put_snapshot`."""
        with self._answering() as home:
            home.replace(SNAPSHOT, codec.seal(_SNAPSHOT_MAGIC, (position,), parts), *parts)
            home.sync_directory()

    def put_note(self, key: str, content: bytes) -> None:
        """See `store.Store.put_note`."""
        self._notes.put(key, content)

    def put_holder_note(self, key: str, content: bytes) -> None:
        """See `store.Store.put_holder_note`."""
        with self._answering() as home:
            self._notes.put_from(home, key, content)

    def drop_note(self, key: str) -> None:
        """See `store.Store.drop_note`."""
        self._notes.drop(key)

    def notes(self, prefix: str) -> dict[str, Note]:
        """See `store.Store.notes`."""
        with self._reachable():
            return self._notes.find(prefix)

    def free_bytes(self) -> int | None:
        """See `store.Store.free_bytes`."""
        return free_space.free_bytes(self._files)

    def statistics(self) -> dict[str, int]:
        """See `store.Store.statistics`."""
        return {}


def _open_segment(home: Files, number: int) -> File | None:
    """The file of a segment; None if it is gone, or goes meanwhile: another thread deletes segments."""
    name = next((name for found, name in segments(home) if found == number), None)
    try:
        return None if name is None else home.open(name)
    except JournalFailed as error:
        if isinstance(error.__cause__, FileNotFoundError):
            return None
        raise


def _encode_identity(tag: int, created_us: int) -> bytes:
    return json.dumps({"format": FORMAT, "tag": tag, "created_us": created_us}).encode()


def _release(home: Files) -> None:
    """Give the lease back."""
    os.utime(home.directory / LEASE, (_RELEASED_AT, _RELEASED_AT))


def _is_released(home: Files) -> bool:
    """True if the last holder has given the lease back, and so does not write any more."""
    return (home.directory / LEASE).stat().st_mtime == _RELEASED_AT


def _write_lease(home: Files, holder: Holder, lease_s: float) -> None:
    content = {"holder": holder.name, "address": holder.address, "lease_s": lease_s, "epoch": epoch_of(home)}
    home.replace(LEASE, json.dumps(content).encode())
    home.sync_directory()
