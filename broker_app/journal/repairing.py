"""Making a damaged journal one that opens: what is damaged is cut out, and its positions are filled.

Only for a journal that no broker holds. A file is never changed in place: its new content is written beside
it and takes its name, and what it was is kept in a folder of its own. What was lost is told by position; what
those positions held is for those to say who know what records mean (`broker_app.offline`).
"""

from __future__ import annotations

import os
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from broker_app.journal import codec, meta, snapshots
from broker_app.journal.errors import JournalDamaged
from broker_app.journal.files import Files
from broker_app.journal.port import FIRST_POSITION
from broker_app.journal.scan import Scan, scan
from broker_app.journal.segment import draw_segment_id, index_name, segment_name

MOST_FILLED = 10_000_000  # positions; a larger hole is no damaged batch
_FILLED_AT_ONCE = 1_000_000


@dataclass(frozen=True, slots=True)
class Damage:
    """One damaged place. The records at `positions` [first, following) are lost, if that is not None.

    `destinations` are what the damaged bytes still tell, or nothing.
    """

    file: str
    offset: int
    what: str
    positions: tuple[int, int] | None = None
    destinations: tuple[str, ...] = ()


@dataclass(slots=True)
class _Log:
    """A segment file as it was found. `frames` are whole, in order; between them may be holes."""

    name: str
    header: codec.SegmentHeader
    whole_head: bool  # else `header` says what the name and the frames tell
    frames: list[tuple[int, codec.Frame]] = field(default_factory=list)
    holes: list[tuple[int, int]] = field(default_factory=list)  # (offset, offset of the next whole frame)
    pieces: list[bytes] | None = None  # what it shall be


class Repair:
    """Looks at a journal's files, and mends them when told so.

    `nothing` is a record, referring to destination 0, that changes nothing when it is replayed.
    """

    def __init__(self, files: Files, nothing: bytes) -> None:
        self._files = files
        self._nothing = nothing
        self.damages: list[Damage] = []
        self._set_aside: list[str] = []
        self._logs = [log for name in files.names() if (log := self._read(name)) is not None]
        self._logs.sort(key=lambda log: log.header.sequence)
        self._look_at_meta()
        start = self._look_at_snapshots()
        self._look_at_logs(start)

    @property
    def loses(self) -> bool:
        """Whether records are lost by it."""
        return any(damage.positions is not None for damage in self.damages)

    def apply(self) -> str:
        """Mend what was found; the folder with the files as they were. Raises JournalFailed."""
        kept = f"damaged-{1 + sum(name.startswith('damaged-') for name in self._files.names())}"
        folder = self._files.directory / kept
        folder.mkdir(mode=0o700)
        for name in self._set_aside:
            self._files.rename(name, f"{kept}/{name}")
        for log in self._logs:
            if log.pieces is not None:
                os.link(self._files.directory / log.name, folder / log.name)
                self._files.remove(index_name(log.name))
                self._files.replace(log.name, *log.pieces, bytes(self._tail_of(log)))
        self._files.sync_directory()
        return str(folder)

    def _tail_of(self, log: _Log) -> int:
        """Bytes that a mended log file needs at its end, not to look like one that was cut."""
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
        return log

    def _look_at_meta(self) -> None:
        try:
            meta.read_meta(self._files)
        except JournalDamaged:
            self._set_aside.append(meta.META)
            what = (
                "damaged; the journal gets a new tag: brokers that bridges forward to do not know it again,"
                " and what was under way to them may arrive twice"
            )
            self.damages.append(Damage(meta.META, 0, what))

    def _look_at_snapshots(self) -> int:
        """The position of the newest good snapshot."""
        found = FIRST_POSITION
        for snapshot in snapshots.snapshot_files(self._files.names()):
            if snapshots.read_snapshot(self._files, snapshot) is None:
                self._set_aside.append(snapshot.name)
                self.damages.append(
                    Damage(snapshot.name, 0, "the snapshot is damaged; the one before is taken")
                )
            else:
                found = snapshot.position
        return found

    def _look_at_logs(self, start: int) -> None:
        """Walk the log: from `start` on its positions must follow each other without a gap."""
        due = FIRST_POSITION
        for log in self._logs:
            if not log.whole_head:
                lost = "nothing is lost" if log.frames else "it holds no batch that can be read"
                self.damages.append(Damage(log.name, 0, f"the head of the file is damaged; {lost}"))
            if not log.frames:
                if not log.whole_head:
                    self._set_aside.append(log.name)
            elif log.header.kind == codec.CARRY:
                self._look_at_carry(log)
            else:
                first = log.frames[0][1].first_position
                due = self._look_at_log(log, min(first, max(due, start)))

    def _look_at_carry(self, log: _Log) -> None:
        content = self._files.content(log.name)
        for at, _ in log.holes:
            # Which positions were there is seen when they are wanted.
            self.damages.append(Damage(log.name, at, "carried batches are damaged", None, _told(content, at)))
        end = log.frames[-1][0] + log.frames[-1][1].length
        if log.holes or not log.whole_head or end != len(content):
            log.pieces = [_head_of(log, content), *(content[at : at + f.length] for at, f in log.frames)]

    def _look_at_log(self, log: _Log, due: int) -> int:
        """Fill the positions that are missing from `due` on; the position after the last."""
        first_due = due
        missing = []
        for at, frame in log.frames:
            if frame.first_position < due:
                raise JournalDamaged(
                    f"{self._files.directory / log.name}: the batch at offset {at} starts at position"
                    f" {frame.first_position}, but {due} was due; that is no damage that can be cut out"
                )
            if frame.first_position > due:
                missing.append((at, due, frame.first_position))
            due = frame.next_position
        if missing or not log.whole_head:
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
        if following - first > MOST_FILLED:
            raise JournalDamaged(
                f"{self._files.directory / log.name}: positions {first} to {following - 1} are missing,"
                " which is more than a damaged batch: take the journal from a copy"
            )
        told = _told(content, place)
        self.damages.append(Damage(log.name, place, "damaged batches", (first, following), told))

    def _filling(self, next_frame: codec.Frame, first: int) -> list[bytes]:
        """Frames of records that change nothing, up to the next good one."""
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


def _header_by_name(name: str, content: bytes) -> codec.SegmentHeader:
    """The head of a file whose own is damaged, but for the positions it covers."""
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
    """The file's head, with the positions that it covers if they were lost."""
    header = log.header
    if header.kind == codec.CARRY and not log.whole_head:
        at, last = log.frames[-1]
        records = codec.carried_records(content, at + last.records_at, at + last.length)
        following = max(position for position, _, _ in records) + 1
        header = replace(header, covers_first=log.frames[0][1].first_position, covers_next=following)
    return codec.encode_segment_header(header)


def _told(content: bytes, at: int) -> tuple[str, ...]:
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
        named = f", which named {', '.join(damage.destinations)}" if damage.destinations else ""
        found.append(f"{damage.what}{lost}{named}")
    return found
