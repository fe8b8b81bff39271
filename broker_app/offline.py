"""A journal without its broker: brought back in memory to be mended, or to be made small."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from broker_app.core import records
from broker_app.core.broker import Broker
from broker_app.core.freezing import freeze
from broker_app.core.recovery import live_positions
from broker_app.journal import meta, recovery
from broker_app.journal.errors import JournalDamaged
from broker_app.journal.files import Files
from broker_app.journal.port import Batch
from broker_app.journal.repairing import Damage, Repair
from broker_app.journal.segments import SEGMENT_BYTES, SegmentJournal
from broker_app.journal.snapshots import KEPT
from broker_app.rebuilding import rebuild

#: a record that says that nothing is gone
_NOTHING = records.acked(0, records.DISCARDED, ())

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Compacted:
    """Bytes of all files before and after, and messages that wait."""

    before: int
    after: int
    waiting: int


@dataclass(slots=True)
class Repaired:
    """What was damaged; `kept` is the folder with the files as they were, "" if nothing was changed.

    `lost` counts messages that waited and are lost, by address; `waiting` those that wait and are there.
    """

    damages: list[Damage]
    kept: str = ""
    report: list[str] = field(default_factory=list)
    lost: Counter[str] = field(default_factory=Counter)
    waiting: int = 0


def check_free(directory: Path) -> None:
    """Raises JournalInUse while a broker holds the journal of this directory, which need not be there."""
    if directory.exists():
        meta.lock(Files(directory)).close()


def compact(directory: Path, tell: Tell) -> Compacted:
    """Bring the files to the size of what still waits. Raises JournalInUse, JournalDamaged, JournalFailed."""
    before = _size(directory)
    journal = SegmentJournal(directory, segment_bytes=_segment_bytes(directory), spare_segments=0)
    broker = Broker()
    try:
        tell("reading the journal")
        for line in rebuild(broker, journal).report:
            tell(line)
        journal.retain(live_positions(broker))
        waiting = sum(map(len, live_positions(broker)))
        tell(f"{waiting} messages wait; copying what still matters")
        journal.roll()
        for _ in range(KEPT):  # space comes back before the older one
            _snapshot(journal, broker)
        copied = journal.statistics()
        tell(f"{copied['segments_copied']} segments copied, {copied['segments_recycled']} given up")
    finally:
        journal.close()
    _trim(directory)
    return Compacted(before, _size(directory), waiting)


def _trim(directory: Path) -> None:
    files = Files(directory)
    lock = meta.lock(files)
    try:
        recovery.trim(files)
    finally:
        lock.close()


def _segment_bytes(directory: Path) -> int:
    """What its broker gave a segment, as far as that is known."""
    try:
        known = meta.read_meta(Files(directory))
    except JournalDamaged:
        known = None
    return (known.segment_bytes if known is not None else 0) or SEGMENT_BYTES


def repair(directory: Path, *, skip_damaged: bool, dry_run: bool) -> Repaired:
    """Mend a journal that does not start. Records that cannot be read are skipped only if `skip_damaged`;
    without, and in a dry run, nothing is changed. Raises JournalInUse, JournalDamaged, JournalFailed.
    """
    files = Files(directory)
    segment_bytes = _segment_bytes(directory)
    lock = meta.lock(files)
    try:
        found = Repair(files, _NOTHING)
        repaired = Repaired(found.damages)
        if dry_run or (found.loses and not skip_damaged):
            return repaired
        if found.damages:
            repaired.kept = found.apply()
    finally:
        lock.close()
    _settle_what_is_lost(directory, repaired, segment_bytes)
    return repaired


def _settle_what_is_lost(directory: Path, repaired: Repaired, segment_bytes: int) -> None:
    """Open the journal, and record that messages which are not there any more are gone."""
    journal = SegmentJournal(directory, segment_bytes=segment_bytes)
    broker = Broker()
    try:
        repaired.report += rebuild(broker, journal).report
        holes = [damage.positions for damage in repaired.damages if damage.positions is not None]
        lost = set(journal.missing(live_positions(broker)))
        for chunk in live_positions(broker):
            lost.update(at for at in chunk if any(first <= at < end for first, end in holes))
        journal.retain(_without(lost, live_positions(broker)))
        repaired.waiting = sum(map(len, live_positions(broker))) - len(lost)
        if lost:
            _record_loss(journal, broker, lost, repaired.lost)
    finally:
        journal.close()


def _record_loss(journal: SegmentJournal, broker: Broker, lost: set[int], counted: Counter[str]) -> None:
    batch = Batch(broker.next_position, journal.created_us)
    for address, positions in _waiting(broker):
        gone = sorted(lost.intersection(positions))
        if gone:
            batch.parts.append(records.acked(len(batch.destinations), records.DISCARDED, gone))
            batch.destinations.append(address)
            counted[address] += len(gone)
    batch.count = len(batch.parts)
    journal.commit(batch, _succeed)


def _waiting(broker: Broker) -> Iterator[tuple[str, list[int]]]:
    """Positions that wait, by address."""
    for address, queue in broker.queues.items():
        yield address, [at for lane in queue.lanes for chunk in lane.paged.chunks() for at in chunk]
    for address, schedule in broker.schedules.items():
        yield address, list(schedule.positions())


def _without(lost: set[int], chunks: Iterator[array[int]]) -> Iterator[array[int]]:
    for chunk in chunks:
        yield array("Q", [at for at in chunk if at not in lost]) if lost else chunk


def _snapshot(journal: SegmentJournal, broker: Broker) -> None:
    journal.snapshot(broker.next_position, [freeze(broker)], _succeed)


def _succeed(error: BaseException | None) -> None:
    if error is not None:
        raise error


def _size(directory: Path) -> int:
    return sum(path.stat().st_blocks * 512 for path in directory.iterdir() if path.is_file())
