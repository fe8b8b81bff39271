"""Recovery of a directory: the valid files, the end of the log, and what to delete.

`scan_directory` only reads, and raises JournalDamaged rather than guess; `repair` then makes the directory
agree with what was found.
"""

from bisect import bisect_left
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field

from broker_app.journal import codec
from broker_app.journal.errors import JournalDamaged, JournalFailed, NoSpace, remedies
from broker_app.journal.files import File, Files
from broker_app.journal.log import snapshots
from broker_app.journal.log.reserve import RESERVE
from broker_app.journal.log.scan import scan
from broker_app.journal.log.segment import Segment, index_name, segment_name
from broker_app.journal.log.segment_pool import set_free
from broker_app.journal.port import FIRST_POSITION


@dataclass
class DirectoryScan:
    """The result. `segments` are in order of positions; `last` is the one to be continued."""

    segments: list[Segment] = field(default_factory=list)
    last: Segment | None = None
    reusable: list[str] = field(default_factory=list)  # segment files without live records
    to_delete: list[str] = field(default_factory=list)  # other files to be deleted
    without_index: list[Segment] = field(default_factory=list)
    snapshot: bytes | None = None
    snapshot_position: int = FIRST_POSITION
    replay_start: int = FIRST_POSITION  # where a replay would begin without that snapshot
    known_end: int = FIRST_POSITION  # the end of the log when the newest snapshot was written
    next_position: int = FIRST_POSITION
    next_sequence: int = 1
    torn: dict[str, int] = field(default_factory=dict)  # segment file → offset of an incomplete frame
    sizes: dict[str, int] = field(default_factory=dict)  # bytes of the segment files that were scanned
    epoch: int = 0  # the largest seen in a frame that was scanned
    report: list[str] = field(default_factory=list)


def _advice(files: Files) -> str:
    return f"nothing was changed; {remedies(files.directory)}"


def scan_directory(files: Files) -> DirectoryScan:
    """Read the directory. Raises JournalDamaged."""
    found = DirectoryScan()
    names = files.names()
    found.to_delete = [name for name in names if name.endswith(".new")]
    _choose_snapshot(files, names, found)
    indexes = {name for name in names if name.endswith(".idx")}
    segments = [_read_segment(files, header, indexes, found) for header in _read_headers(files, names, found)]
    _drop_superseded([segment for segment in segments if len(segment.batch_positions)], found)
    _find_end(files, [segment for segment in segments if segment.kind == codec.LOG], found)
    found.to_delete += sorted(indexes - {index_name(segment.name) for segment in found.segments})
    return found


def _choose_snapshot(files: Files, names: Iterable[str], found: DirectoryScan) -> None:
    kept = snapshots.snapshot_files(names)
    found.known_end = max((each.position for each in kept), default=FIRST_POSITION)
    while kept:
        newest = kept[-1]
        blob = snapshots.read_snapshot(files, newest)
        if blob is not None:
            found.snapshot, found.snapshot_position = blob, newest.position
            found.replay_start = snapshots.start_without_the_last(kept)
            return
        found.report.append(
            f"{files.directory / newest.name}: the snapshot is damaged and was deleted; nothing is lost:"
            " the snapshot before it and the log since then contain the same state"
        )
        found.to_delete.append(newest.name)
        kept.pop()


def _read_headers(files: Files, names: Iterable[str], found: DirectoryScan) -> list[codec.SegmentHeader]:
    headers = []
    for name in names:
        if not name.endswith(".seg"):
            continue
        found.next_sequence = max(found.next_sequence, int(name.removesuffix(".seg").rpartition("-")[2]) + 1)
        if name.startswith("free-"):
            found.reusable.append(name)
            continue
        header = codec.decode_segment_header(files.content(name, codec.SEGMENT_HEADER_BYTES))
        if header is None:
            raise JournalDamaged(
                f"{files.directory / name}: the header of the file is damaged (offset 0); {_advice(files)}"
            )
        if segment_name(header.kind, header.sequence) != name:
            found.reusable.append(name)  # the power failed while it was being made ready for its next use
            continue
        headers.append(header)
    return sorted(headers, key=lambda header: header.sequence)


def _read_segment(
    files: Files, header: codec.SegmentHeader, indexes: set[str], found: DirectoryScan
) -> Segment:
    """From its index if there is one and nothing in it will be replayed, else by checking every frame."""
    name = segment_name(header.kind, header.sequence)
    if index_name(name) in indexes:
        segment = Segment.from_index(header, files.content(index_name(name)))
        if segment is not None and segment.next_position <= found.snapshot_position:
            return segment
    segment = _read_by_scan(files, header, found)
    if len(segment.batch_positions):
        found.without_index.append(segment)
    return segment


def _read_by_scan(files: Files, header: codec.SegmentHeader, found: DirectoryScan) -> Segment:
    segment = Segment(header)
    path = files.directory / segment.name
    content = files.content(segment.name)
    found.sizes[segment.name] = len(content)
    seen = scan(content, header.segment_id)
    for offset, frame in seen.frames:
        found.epoch = max(found.epoch, frame.epoch)
        if header.kind == codec.CARRY:
            records = codec.carried_records(content, offset + frame.records_at, offset + frame.length)
            segment.append_carried(
                frame.first_position, [position for position, _, _ in records], frame.length
            )
            continue
        if len(segment) and frame.first_position != segment.next_position:
            raise JournalDamaged(
                f"{path}: the batch at offset {offset} starts at position {frame.first_position}"
                f" instead of {segment.next_position}; {_advice(files)}"
            )
        segment.append(frame.first_position, frame.count, frame.length)
    if seen.later is not None:
        offset, frame = seen.later
        lost = f" (positions {segment.next_position} to {frame.first_position - 1})" if len(segment) else ""
        raise JournalDamaged(
            f"{path}: damaged from offset {seen.end} to {offset}{lost}, good batches follow; {_advice(files)}"
        )
    if seen.torn:
        found.torn[segment.name] = seen.end
    if header.kind == codec.CARRY and seen.end != len(content):
        raise JournalDamaged(f"{path}: damaged from offset {seen.end} on; {_advice(files)}")
    return segment


def _drop_superseded(segments: list[Segment], found: DirectoryScan) -> None:
    carries = [segment for segment in segments if segment.kind == codec.CARRY]
    for segment in segments:
        if any(_covers(carry, segment) for carry in carries):
            found.reusable.append(segment.name)
        else:
            found.segments.append(segment)
    found.without_index = [segment for segment in found.without_index if segment in found.segments]
    found.segments.sort(key=lambda segment: segment.first_position)


def _covers(carry: Segment, other: Segment) -> bool:
    within = carry.first_position <= other.first_position and other.next_position <= carry.next_position
    return within and carry.sequence > other.sequence


def _find_end(files: Files, logs: list[Segment], found: DirectoryScan) -> None:
    """The log from the snapshot on must be without a gap; what is empty behind its end is spare."""
    expected = found.snapshot_position
    empty = []
    for segment in logs:
        if not len(segment.batch_positions):
            empty.append(segment)
        elif segment in found.segments and segment.next_position >= expected:
            overlaps = found.last is not None and segment.first_position < expected
            if segment.first_position > expected or overlaps:
                raise _gap(files, segment, expected, found)
            expected = segment.next_position
            found.last = segment
    if expected < found.known_end:
        raise JournalDamaged(
            f"{files.directory}: the log ends before position {expected}, but had reached {found.known_end}"
            f" when the snapshot was written that is damaged now; {_advice(files)}"
        )
    found.next_position = expected
    found.reusable += [segment.name for segment in empty]
    if found.last is not None:
        last = found.last
        found.without_index = [segment for segment in found.without_index if segment is not last]
        empty = [last, *(segment for segment in empty if segment.sequence > last.sequence)]
    for segment in empty:
        if (offset := found.torn.get(segment.name)) is not None:
            place = f"offset {offset}, position {expected}"
            found.report.append(
                f"{files.directory / segment.name}: the last batch is incomplete or damaged ({place}) and was"
                " cut: it was being written when the broker ended, and no client had a confirmation of it,"
                " or the disk has damaged it since"
            )


def _gap(files: Files, segment: Segment, expected: int, found: DirectoryScan) -> JournalDamaged:
    causes = [
        f"{files.directory / name} is damaged at offset {offset}" for name, offset in found.torn.items()
    ]
    why = "".join(f"; {cause}" for cause in (*causes, *found.report))
    first = segment.first_position
    what = (
        f"positions {expected} to {first - 1} are stored nowhere"
        if first > expected
        else f"{expected} was due"
    )
    return JournalDamaged(
        f"{files.directory / segment.name}: starts at position {first}, but {what}{why}; {_advice(files)}"
    )


def report_short_file(files: Files, found: DirectoryScan, segment_bytes: int) -> None:
    """Report a last file that is shorter than when it was created: batches may be missing at its end."""
    last = found.last
    if last is None or found.next_position == found.snapshot_position:
        return  # all that was logged is known
    size = found.sizes.get(last.name, segment_bytes)
    if size < segment_bytes:
        found.report.append(
            f"{files.directory / last.name}: the file has {size} bytes and was made with {segment_bytes},"
            f" unless space was short; if it was cut, batches from position {found.next_position} on are gone"
        )


def trim(files: Files) -> None:
    """Free all unused space: spare files, the reserve, and what is allocated behind the log."""
    found = scan_directory(files)
    repair(files, found, 0)
    if found.last is not None and found.last.file is not None:
        found.last.file.close()
    files.remove(RESERVE)


def repair(files: Files, found: DirectoryScan, spare_segments: int) -> list[str]:
    """Cut torn batches, delete needless files, write missing indexes. Returns the files free for another use.

    Raises JournalFailed; trying again is harmless. A full disk does not prevent it.
    """
    with suppress(NoSpace):  # the next start reads the frames again
        for segment in found.without_index:
            files.replace(index_name(segment.name), segment.encode_index())
    if found.last is not None:
        found.to_delete.append(index_name(found.last.name))
    free: list[str] = []
    for name in found.reusable:
        if len(free) == spare_segments:
            found.to_delete += (name, index_name(name))
        else:
            free.append(set_free(files, name))
    for name in found.to_delete:
        files.remove(name)
    files.sync_directory()
    if found.last is not None:
        found.last.file = _rewrite_end(files, found.last, found.snapshot_position)
    return free


def _rewrite_end(files: Files, last: Segment, since: int) -> File:
    """Have what was logged from the position `since` on, and nothing behind it, on the disk.

    What was read may be only in the cache of the operating system: after a failed sync, another one would
    write nothing of it. So it is written again. Before the snapshot all syncs have succeeded.
    """
    file = files.open(last.name, write=True)
    try:
        number = bisect_left(last.batch_positions, since)
        if number < len(last.batch_positions):
            start = last.batch_offsets[number]
            file.write((file.read(last.end - start, start),), start)
        file.truncate(last.end)  # so that no part of a torn batch is ever read again
        file.sync()
    except JournalFailed:
        file.close()
        raise
    return file


def allocate(last: Segment, segment_bytes: int) -> None:
    """Have blocks for the rest of the segment to be continued, if there is space for them."""
    assert last.file is not None
    with suppress(NoSpace):
        last.file.reserve(max(segment_bytes, last.end))
        last.file.sync()
        last.allocated = max(segment_bytes, last.end)
