"""Looking at a journal from outside, running or stopped, without changing or locking anything."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from struct import error as StructError
from typing import Final, NotRequired, TypedDict

from broker_app.journal import codec
from broker_app.journal.errors import JournalDamaged, JournalFailed
from broker_app.journal.files import Files
from broker_app.journal.log import meta, snapshots
from broker_app.journal.log.scan import Scan, scan
from broker_app.journal.log.segment import segment_name
from broker_app.journal.port import FIRST_POSITION


@dataclass(frozen=True, slots=True)
class Finding:
    """One sentence about one file. `damage` is true if something is lost or cannot be read."""

    file: str
    sentence: str
    offset: int | None = None
    damage: bool = False


@dataclass(frozen=True, slots=True)
class _Seen:
    header: codec.SegmentHeader
    content: bytes
    scan: Scan

    @property
    def first_position(self) -> int:
        return self.scan.frames[0][1].first_position

    @property
    def next_position(self) -> int:
        return self.scan.frames[-1][1].next_position


@dataclass(slots=True)
class _Tally:
    batches: int = 0
    records: int = 0
    next_position: int | None = None
    start: int = FIRST_POSITION  # of a replay: the position of the newest good snapshot


#: how often what looks like damage is looked at again
_LOOKS: Final = 3
#: raises ValueError for a record that makes no sense; gets the size of the table of its batch, too
CheckRecord = Callable[[bytes, int], None]


def _any_record(record: bytes, names: int) -> None:
    """Accept: what records mean is known to those who write them."""


def verify(directory: str | Path, check_record: CheckRecord = _any_record) -> Iterator[Finding]:
    """Check every byte that counts; the findings, at last a summary. A checksum shows what was damaged after
    a record was written; `check_record` finds one that was nonsense then.

    On a running journal an incomplete last batch is not damage: it is just being written.
    """
    files = Files(Path(directory))
    findings, tally = _look(files, check_record)
    for _ in range(_LOOKS):
        if not any(finding.damage for finding in findings):
            break
        # A running journal writes and reclaims while its files are read one after the other, which can
        # look like a gap; but real damage is found again at the same place.
        before = findings
        findings, tally = _look(files, check_record)
        findings = [finding for finding in findings if not finding.damage or finding in before]
    yield from findings
    damaged = sum(finding.damage for finding in findings)
    state = f"{damaged} damaged places" if damaged else "no damage"
    end = tally.next_position or FIRST_POSITION
    sentence = f"{tally.batches} batches, {tally.records} records, log ends before position {end}; {state}"
    yield Finding(str(directory), sentence)


def _look(files: Files, check_record: CheckRecord) -> tuple[list[Finding], _Tally]:
    tally = _Tally()
    beside = [*_verify_meta(files), *_verify_snapshots(files, tally)]
    return [*beside, *_verify_segments(files, tally, check_record)], tally


def _verify_meta(files: Files) -> Iterator[Finding]:
    try:
        meta.read_meta(files)
    except JournalDamaged as error:
        yield Finding(meta.META, str(error), 0, damage=True)


def _verify_segments(files: Files, tally: _Tally, check_record: CheckRecord) -> Iterator[Finding]:
    pending: Finding | None = None  # an end that is honest only if nothing follows it
    for seen in _segments(files):
        if isinstance(seen, Finding):
            yield seen
            continue
        tally.batches += len(seen.scan.frames)
        tally.records += sum(frame.count for _, frame in seen.scan.frames)
        if seen.header.kind == codec.LOG and seen.scan.frames:
            yield from _verify_join(seen, tally, pending)
            tally.next_position, pending = seen.next_position, None
        yield from _verify_frames(seen, check_record)
        if seen.scan.later is None and seen.scan.torn:
            sentence = "the last batch is incomplete: never confirmed, or just being written"
            pending = Finding(_name(seen), sentence, seen.scan.end)
    if pending is not None:
        yield pending


def _verify_snapshots(files: Files, tally: _Tally) -> list[Finding]:
    findings = []
    for snapshot in snapshots.snapshot_files(files.names()):
        content = _unless_gone(files, snapshot.name)
        if content is None:
            continue
        blob = snapshots.decode_snapshot(snapshot, content)
        if blob is None:
            findings.append(Finding(snapshot.name, "the snapshot is damaged", 0, damage=True))
        else:
            tally.start = snapshot.position
            findings.append(Finding(snapshot.name, f"a good snapshot of {len(blob)} bytes"))
    return findings


def _verify_join(seen: _Seen, tally: _Tally, pending: Finding | None) -> Iterator[Finding]:
    """Positions may be missing between two log files only before a snapshot: there they were reclaimed."""
    first, expected = seen.first_position, tally.next_position
    if first == (expected or FIRST_POSITION):
        return
    due = max(tally.start, expected or FIRST_POSITION)
    if first > due or (expected is not None and first < expected):
        where = f" (see {pending.file} at offset {pending.offset})" if pending is not None else ""
        sentence = f"starts at position {first} instead of {due}{where}"
        yield Finding(_name(seen), sentence, codec.SEGMENT_HEADER_BYTES, damage=True)


def _verify_frames(seen: _Seen, check_record: CheckRecord) -> Iterator[Finding]:
    expected = None
    for offset, frame in seen.scan.frames:
        if expected not in (None, frame.first_position):
            yield Finding(
                _name(seen), f"position {frame.first_position} instead of {expected}", offset, damage=True
            )
        expected = frame.next_position if seen.header.kind == codec.LOG else None
        try:
            places = _places(seen.content, offset, frame)
            names = len(_table(seen.content, offset, frame))
            for _, start, end in places:
                check_record(seen.content[start:end], names)
        except ValueError as error:
            yield Finding(_name(seen), f"the batch's records make no sense: {error}", offset, damage=True)
            continue
        if len(places) != frame.count:
            yield Finding(_name(seen), f"{len(places)} records instead of {frame.count}", offset, damage=True)
    if seen.scan.later is not None:
        offset, frame = seen.scan.later
        lost = f"positions {expected if expected is not None else '?'} to {frame.first_position - 1}"
        yield Finding(
            _name(seen), f"damaged up to offset {offset}: {lost} are lost", seen.scan.end, damage=True
        )
    elif seen.header.kind == codec.CARRY and seen.scan.end != len(seen.content):
        yield Finding(_name(seen), "damaged from here to the end", seen.scan.end, damage=True)


def _segments(files: Files) -> Iterator[_Seen | Finding]:
    """The segment files in the order in which they were begun."""
    names = [name for name in files.names() if name.endswith(".seg") and not name.startswith("free-")]
    for name in sorted(names, key=lambda name: name.rpartition("-")[2]):
        content = _unless_gone(files, name)
        if content is None:
            continue
        try:
            header = codec.decode_segment_header(content)
            if header is None:
                yield Finding(name, "the header of the file is damaged", 0, damage=True)
            elif segment_name(header.kind, header.sequence) == name:
                yield _Seen(header, content, scan(content, header.segment_id))
        except JournalDamaged as error:
            yield Finding(name, str(error), damage=True)


def _unless_gone(files: Files, name: str) -> bytes | None:
    """A running journal may have given the file up since it was listed."""
    try:
        return files.content(name)
    except JournalFailed:
        if name in files.names():
            raise
        return None


def _name(seen: _Seen) -> str:
    return segment_name(seen.header.kind, seen.header.sequence)


def _table(content: bytes, offset: int, frame: codec.Frame) -> list[str]:
    """The table of the frame's destinations. Raises ValueError."""
    table = content[offset + codec.FRAME_HEADER_BYTES : offset + frame.records_at]
    try:
        return codec.decode_table(table)
    except StructError as error:
        raise ValueError(f"the table of destinations is cut off: {error}") from error


def _places(content: bytes, offset: int, frame: codec.Frame) -> list[tuple[int, int, int]]:
    """(position, start, end) of the frame's records. Raises ValueError."""
    start, end = offset + frame.records_at, offset + frame.length
    if frame.flags & codec.CARRIED:
        return list(codec.carried_records(content, start, end))
    starts = codec.record_starts(content, start, end)
    return [(frame.first_position + i, starts[i], starts[i + 1]) for i in range(len(starts) - 1)]


class DumpedRecord(TypedDict):
    """A record, with its content as it is stored."""

    position: int
    type: int
    bytes: int
    content: bytes


class DumpedBatch(TypedDict):
    """A batch, and the place in its file."""

    file: str
    offset: int
    bytes: int
    epoch: int
    first_position: int
    time_us: int
    count: int
    carried: bool
    destinations: Sequence[str]
    records: NotRequired[list[DumpedRecord]]


def dump(directory: str | Path, *, first_position: int = 0, records: bool = True) -> Iterator[DumpedBatch]:
    """Batches from `first_position` on, in the order of the files, with their records if asked for.

    The rest of a damaged file is left out.
    """
    for seen in _segments(Files(Path(directory))):
        if isinstance(seen, Finding):
            continue
        for offset, frame in seen.scan.frames:
            try:
                places, table = _places(seen.content, offset, frame), _table(seen.content, offset, frame)
            except ValueError:  # `verify` reports it
                break
            if places and places[-1][0] < first_position:
                continue
            batch: DumpedBatch = {
                "file": _name(seen),
                "offset": offset,
                "bytes": frame.length,
                "epoch": frame.epoch,
                "first_position": frame.first_position,
                "time_us": frame.time_us,
                "count": frame.count,
                "carried": bool(frame.flags & codec.CARRIED),
                "destinations": table,
            }
            if records:
                batch["records"] = [
                    {
                        "position": at,
                        "type": seen.content[start + 4],
                        "bytes": end - start,
                        "content": seen.content[start:end],
                    }
                    for at, start, end in places
                    if at >= first_position
                ]
            yield batch
