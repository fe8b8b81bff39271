"""Repair of a damaged journal, so that it opens: damaged parts are cut out, and their positions are filled.

Only for a journal that no broker has open. A file is never changed in place: its new content is written to
another file, which takes its name, and the old file is kept in a separate folder. If positions between files
are missing that cannot be filled, a snapshot of all that can be read replaces the log. To make it, and to
report the content of lost positions, knowledge of the records is needed (`broker_app.storage.offline`).
"""

from __future__ import annotations

import os
import struct
import sys
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from broker_app.journal import codec
from broker_app.journal.errors import JournalDamaged
from broker_app.journal.files import Files
from broker_app.journal.log import meta, snapshots
from broker_app.journal.log.scan import Scan, scan
from broker_app.journal.log.segment import draw_segment_id, index_name, segment_name
from broker_app.journal.port import FIRST_POSITION, StoredBatch

MAX_FILLED = 10_000_000  # positions; a larger hole is no damaged batch
_FILLED_AT_ONCE = 1_000_000


@dataclass(frozen=True, slots=True)
class Damage:
    """One damaged place. The records at `positions` [first, following) are lost, if that is not None, except
    `carried` messages, of which a carry file has a copy.

    `destinations` are those that are still readable in the damaged bytes.
    """

    file: str
    offset: int
    what: str
    positions: tuple[int, int] | None = None
    destinations: tuple[str, ...] = ()
    carried: int = 0


@dataclass(slots=True)
class _Log:
    """A segment file as it was found. `frames` are whole, in order; between them may be holes."""

    name: str
    header: codec.SegmentHeader
    whole_head: bool  # else `header` is made from the name and the frames
    frames: list[tuple[int, codec.Frame]] = field(default_factory=list)
    holes: list[tuple[int, int]] = field(default_factory=list)  # (offset, offset of the next whole frame)
    torn: bool = False  # something of a batch begins behind the last whole one
    pieces: list[bytes] | None = None  # what it shall be


class _Place(NamedTuple):
    """Records that can be read: bytes `start` to `end` of a file, in the frame at byte `at`."""

    position: int
    log: _Log
    at: int
    frame: codec.Frame
    start: int
    end: int


class Repair:
    """Inspects a journal's files, and repairs them on request.

    `nothing` is a record, referring to destination 0, that changes nothing when it is replayed. What can be
    read is `snapshot`, which is as of `start`, and `batches` from there on; it ends before `next_position`.
    """

    def __init__(self, files: Files, nothing: bytes) -> None:
        self._files = files
        self._nothing = nothing
        self.damages: list[Damage] = []
        self.snapshot: bytes | None = None
        self.start = self.next_position = FIRST_POSITION
        self._gaps: list[tuple[int, int]] = []  # positions between files, from `start` on
        self._set_aside: list[str] = []
        self._logs = [log for name in files.names() if (log := self._read(name)) is not None]
        self._logs.sort(key=lambda log: log.header.sequence)
        carries = [log for log in self._logs if log.header.kind == codec.CARRY]
        self._carried = {place.position for log in carries for place in self._places_in(log)}
        self._check_meta()
        self._check_snapshots()
        self._check_logs()
        whole = [log for log in self._logs if log.frames and log.header.kind == codec.LOG]
        self._ranges = sorted((f.first_position, f.next_position) for log in whole for _, f in log.frames)

    @property
    def has_losses(self) -> bool:
        """True if it loses records that a replay would have read."""
        return any(damage.positions and damage.positions[1] > self.start for damage in self.damages)

    @property
    def has_gaps(self) -> bool:
        """True if the journal does not open without a snapshot of what can be read."""
        return bool(self._gaps)

    def stores(self, position: int) -> bool:
        """True if the record at a position can be read."""
        at = bisect_right(self._ranges, (position, sys.maxsize)) - 1
        return (at >= 0 and position < self._ranges[at][1]) or position in self._carried

    def batches(self) -> Iterator[StoredBatch]:
        """The readable batches from `start` on, in the order of positions; carried ones record by record."""
        found: dict[int, _Place] = {}
        for log in self._logs:
            if log.header.kind == codec.LOG:
                for at, frame in log.frames:
                    if (first := frame.first_position) >= self.start:
                        found[first] = _Place(first, log, at, frame, at + frame.records_at, at + frame.length)
            elif self._gaps:
                # After a crash two carry files may have the same record: the later is a copy of the earlier.
                missing = (place for place in self._places_in(log) if self._is_missing(place.position))
                found |= {place.position: place for place in missing}
        content, of = b"", ""
        for position, log, at, frame, start, end in (found[position] for position in sorted(found)):
            if of != log.name:
                content, of = self._files.content(log.name), log.name
            table = codec.decode_table(content[at + codec.FRAME_HEADER_BYTES : at + frame.records_at])
            count = frame.count if log.header.kind == codec.LOG else 1
            yield StoredBatch(position, frame.time_us, frame.epoch, table, count, content[start:end])

    def apply(self, state: bytes | None = None) -> str:
        """Repair the damage; return the folder with the former files. Raises JournalFailed.

        `state`, if given, is the state of all readable records; the journal then begins with it.
        """
        kept = f"damaged-{1 + sum(name.startswith('damaged-') for name in self._files.names())}"
        folder = self._files.directory / kept
        folder.mkdir(mode=0o700)
        if state is not None:
            former = snapshots.snapshot_files(self._files.names())
            self._set_aside += [each.name for each in former if each.name not in self._set_aside]
        for name in self._set_aside:
            self._files.rename(name, f"{kept}/{name}")
        for log in self._logs:
            if log.pieces is not None:
                os.link(self._files.directory / log.name, folder / log.name)
                self._files.remove(index_name(log.name))
                self._files.replace(log.name, *log.pieces, bytes(self._tail_of(log)))
        if state is not None:
            for _ in range(snapshots.KEPT):
                snapshots.write_snapshot(self._files, self.next_position, [state])
        self._files.sync_directory()
        return str(folder)

    def _tail_of(self, log: _Log) -> int:
        """Bytes that a repaired log file needs at its end, not to look like one that was cut."""
        assert log.pieces is not None
        if log.header.kind == codec.CARRY:
            return 0
        return max(0, len(self._files.content(log.name)) - sum(map(len, log.pieces)))

    # ------------------------------------------------------------------------- looking

    def _read(self, name: str) -> _Log | None:
        if not name.endswith(".seg") or name.startswith("free-"):
            return None
        content = self._files.content(name)
        header = codec.decode_segment_header(content)
        if header is not None and segment_name(header.kind, header.sequence) != name:
            return None  # it was about to be used again
        log = _Log(name, header or _header_by_name(name, content), header is not None)
        at: int | None = codec.SEGMENT_HEADER_BYTES
        while at is not None:
            seen: Scan = scan(content, log.header.segment_id, at)
            log.frames += seen.frames
            if seen.later is not None:
                log.holes.append((seen.end, seen.later[0]))
            at = None if seen.later is None else seen.later[0]
            log.torn = seen.torn
        return log

    def _places_in(self, carry: _Log) -> Iterator[_Place]:
        """Of each record of a carry file that can be read."""
        content = self._files.content(carry.name)
        for at, frame in carry.frames:
            records = codec.carried_records(content, at + frame.records_at, at + frame.length)
            for position, start, end in records:
                yield _Place(position, carry, at, frame, start, end)

    def _is_missing(self, position: int) -> bool:
        return any(first <= position < following for first, following in self._gaps)

    def _check_meta(self) -> None:
        try:
            meta.read_meta(self._files)
        except JournalDamaged:
            self._set_aside.append(meta.META)
            what = (
                "damaged; the journal gets a new tag: target brokers of bridges do not recognize it,"
                " and messages in flight to them may arrive twice"
            )
            self.damages.append(Damage(meta.META, 0, what))

    def _check_snapshots(self) -> None:
        """Find the newest valid one."""
        for snapshot in snapshots.snapshot_files(self._files.names()):
            blob = snapshots.read_snapshot(self._files, snapshot)
            self.next_position = max(self.next_position, snapshot.position)
            if blob is None:
                self._set_aside.append(snapshot.name)
                self.damages.append(
                    Damage(snapshot.name, 0, "the snapshot is damaged; the previous one is used")
                )
            else:
                self.snapshot, self.start = blob, snapshot.position

    def _check_logs(self) -> None:
        """Walk the log: from `start` on its positions must follow each other without a gap."""
        due = FIRST_POSITION
        last = ""
        for log in self._logs:
            if not log.whole_head:
                lost = "nothing is lost" if log.frames else "it contains no readable batch"
                self.damages.append(Damage(log.name, 0, f"the header of the file is damaged; {lost}"))
            if not log.frames:
                if log.torn or not log.whole_head:
                    self._set_aside.append(log.name)
            elif log.header.kind == codec.CARRY:
                self._check_carry(log)
            else:
                first = self._first_of(log, max(due, self.start))
                due, last = self._check_log(log, first), log.name
        due = max(due, self.start)
        self._check_gap(last or snapshots.snapshot_name(self.next_position), 0, due, self.next_position)
        self.next_position = max(self.next_position, due)

    def _first_of(self, log: _Log, due: int) -> int:
        """The position at which a log file begins. Where `due` comes before its first whole batch, either the
        damaged batches in front of that had those positions, or they are a gap."""
        at, frame = log.frames[0]
        first = frame.first_position
        if _begins_damaged(log) and 0 < first - due <= MAX_FILLED and not self._carried_within(due, first):
            return due
        self._check_gap(log.name, at, due, first)
        return first

    def _carried_within(self, first: int, following: int) -> int:
        """The number of records at these positions in a carry file."""
        return sum(first <= position < following for position in self._carried)

    def _check_gap(self, file: str, offset: int, first: int, following: int) -> None:
        """Positions that no log file has, up to `following`, where the next one begins."""
        if first >= following:
            return
        self._gaps.append((first, following))
        carried = self._carried_within(first, following)
        self.damages.append(
            Damage(file, offset, "the log before this is missing", (first, following), carried=carried)
        )

    def _check_carry(self, log: _Log) -> None:
        content = self._files.content(log.name)
        for at, _ in log.holes:
            # Which positions were there is seen when they are wanted.
            self.damages.append(
                Damage(log.name, at, "carried batches are damaged", None, _destinations_of(content, at))
            )
        end = log.frames[-1][0] + log.frames[-1][1].length
        if log.holes or not log.whole_head or end != len(content):
            log.pieces = [_head_of(log, content), *(content[at : at + f.length] for at, f in log.frames)]

    def _check_log(self, log: _Log, due: int) -> int:
        """Fill the positions that are missing from `due` on; the position after the last."""
        first_due = due
        missing = []
        for at, frame in log.frames:
            if frame.first_position < due:
                raise JournalDamaged(
                    f"{self._files.directory / log.name}: the batch at offset {at} starts at position"
                    f" {frame.first_position}, but {due} was expected; this damage cannot be repaired"
                )
            if frame.first_position > due:
                missing.append((at, due, frame.first_position))
            due = frame.next_position
        # Of damage in front of all that can be read the positions are not known: they are older than the
        # snapshot, or a gap.
        is_cut = _begins_damaged(log) and first_due == log.frames[0][1].first_position
        if is_cut:
            place = log.holes[0][0]
            addresses = _destinations_of(self._files.content(log.name), place)
            what = "damaged batches in front of the first that can be read"
            self.damages.append(Damage(log.name, place, what, None, addresses))
        if missing or is_cut or not log.whole_head:
            self._fill(log, first_due, missing)
        return due

    def _fill(self, log: _Log, due: int, missing: Sequence[tuple[int, int, int]]) -> None:
        content = self._files.content(log.name)
        places = {following: at for at, following in log.holes}
        for at, first, following in missing:
            self._lose(log, content, places.get(at, codec.SEGMENT_HEADER_BYTES), first, following)
        log.pieces = [_head_of(log, content)]
        for at, frame in log.frames:
            if frame.first_position > due:
                log.pieces += self._filling(frame, due)
            log.pieces.append(content[at : at + frame.length])
            due = frame.next_position

    def _lose(self, log: _Log, content: bytes, place: int, first: int, following: int) -> None:
        if following - first > MAX_FILLED:
            raise JournalDamaged(
                f"{self._files.directory / log.name}: positions {first} to {following - 1} are missing,"
                " which is more than a damaged batch: restore the journal from a backup"
            )
        addresses = _destinations_of(content, place)
        self.damages.append(Damage(log.name, place, "damaged batches", (first, following), addresses))

    def _filling(self, next_frame: codec.Frame, first: int) -> list[bytes]:
        """Frames of records that change nothing, up to the next intact one."""
        pieces: list[bytes] = []
        while first < next_frame.first_position:
            count = min(_FILLED_AT_ONCE, next_frame.first_position - first)
            pieces += codec.encode_frame(
                segment_id=next_frame.segment_id,
                epoch=next_frame.epoch,
                first_position=first,
                time_us=next_frame.time_us,
                count=count,
                table=codec.encode_table(["(lost)"]),
                parts=[self._nothing] * count,
            )
            first += count
        return pieces


def _begins_damaged(log: _Log) -> bool:
    """True if there is a hole in front of the first whole frame."""
    return bool(log.holes) and log.holes[0][1] == log.frames[0][0]


def _header_by_name(name: str, content: bytes) -> codec.SegmentHeader:
    """A new header for a file whose own is damaged, except for the positions it covers."""
    kind = codec.LOG if name.startswith("log-") else codec.CARRY
    sequence = int(name.removesuffix(".seg").rpartition("-")[2])
    return codec.SegmentHeader(kind, _segment_id(content), sequence)


def _segment_id(content: bytes) -> int:
    """The segment id, which every frame has."""
    at = content.find(codec.MAGIC, codec.SEGMENT_HEADER_BYTES)
    while at >= 0:
        frame = codec.decode_frame(content, at)
        if frame is not None and codec.is_whole(content, at, frame):
            return frame.segment_id
        at = content.find(codec.MAGIC, at + 1)
    return draw_segment_id()


def _head_of(log: _Log, content: bytes) -> bytes:
    """The file's header, with the positions that it covers if they were lost."""
    header = log.header
    if header.kind == codec.CARRY and not log.whole_head:
        at, last = log.frames[-1]
        records = codec.carried_records(content, at + last.records_at, at + last.length)
        following = max(position for position, _, _ in records) + 1
        header = replace(header, covers_first=log.frames[0][1].first_position, covers_next=following)
    return codec.encode_segment_header(header)


def _destinations_of(content: bytes, at: int) -> tuple[str, ...]:
    """Destinations that a damaged frame seems to name; nothing if that makes no sense."""
    frame = codec.decode_frame(content, at)
    if frame is None or frame.records_at > frame.length:
        return ()
    try:
        names = codec.decode_table(content[at + codec.FRAME_HEADER_BYTES : at + frame.records_at])
    except (ValueError, struct.error):
        return ()
    return tuple(name for name in names if name.startswith("/") and name.isprintable())


def describe(damages: Sequence[Damage]) -> list[str]:
    """A sentence for each damage."""
    found = []
    for damage in damages:
        lost = "" if damage.positions is None else f": positions {damage.positions[0]}"
        if damage.positions is not None:
            lost += f" to {damage.positions[1] - 1}"
        if damage.carried:
            lost += f", except {damage.carried} messages that were copied: these wait again"
        named = f", which named {', '.join(damage.destinations)}" if damage.destinations else ""
        found.append(f"{damage.what}{lost}{named}")
    return found
