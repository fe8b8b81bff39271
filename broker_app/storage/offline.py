"""A journal without its broker: brought back in memory to be repaired, or to be made small."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from broker_app.core.broker import Broker
from broker_app.core.durability import records
from broker_app.core.durability.recovery import Recovery, forget, live_positions
from broker_app.core.durability.snapshot import take_snapshot
from broker_app.journal.errors import JournalDamaged
from broker_app.journal.files import Files
from broker_app.journal.log import meta, recovery
from broker_app.journal.log.segments import SEGMENT_BYTES, SegmentJournal
from broker_app.journal.log.snapshots import KEPT
from broker_app.journal.tools.repair import Damage, Repair
from broker_app.storage.recovery import rebuild

#: a record without removed messages
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
    """The damage; `kept` is the folder with the original files, "" if nothing was changed.

    `lost` counts messages that waited, or were retained, and are stored nowhere, by address; `waiting` those
    that are there.
    """

    damages: list[Damage]
    kept: str = ""
    lost: Counter[str] = field(default_factory=Counter)
    waiting: int = 0


def check_free(directory: Path) -> None:
    """Raises JournalInUse while a broker holds the journal of this directory, which need not be there."""
    if directory.exists():
        meta.lock(Files(directory)).close()


@contextmanager
def hold(directory: Path) -> Iterator[None]:
    """Keep other brokers from this directory for the block. Raises JournalInUse and JournalFailed."""
    files = Files(directory)
    files.create_directory()
    lock = meta.lock(files)
    try:
        yield
    finally:
        lock.close()


def compact(directory: Path, tell: Tell) -> Compacted:
    """Bring the files to the size of what still waits, and of the log that cursors keep. Raises JournalInUse,
    JournalDamaged, JournalFailed."""
    before = _size(directory)
    # The limit that the broker has for cursors is not known here.
    journal = SegmentJournal(
        directory, segment_bytes=_segment_bytes(directory), spare_segments=0, cursor_bytes=sys.maxsize
    )
    broker = Broker()
    try:
        tell("reading the journal")
        for line in rebuild(broker, journal).report:
            tell(line)
        journal.set_live_positions(live_positions(broker))
        waiting = sum(map(len, live_positions(broker)))
        tell(f"{waiting} messages wait; copying what still matters")
        if kept := [name for name, cursor in journal.cursors().items() if cursor.keeps_log]:
            tell(f"the log is kept for the cursors of its readers: {', '.join(kept)}")
        journal.roll()
        for _ in range(KEPT):  # space comes back before the older one
            _snapshot(journal, broker)
        copied = journal.statistics()
        tell(f"{copied['segments_copied']} segments copied, {copied['segments_recycled']} freed")
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
    """The segment size of its broker, as far as that is known."""
    try:
        known = meta.read_meta(Files(directory))
    except JournalDamaged:
        known = None
    return (known.segment_bytes if known is not None else 0) or SEGMENT_BYTES


def repair(directory: Path, *, skip_damaged: bool, dry_run: bool) -> Repaired:
    """Repair a journal that does not start. Records that cannot be read are skipped only if `skip_damaged`;
    without, and in a dry run, nothing is changed. Raises JournalInUse, JournalDamaged, JournalFailed.
    """
    files = Files(directory)
    lock = meta.lock(files)
    try:
        found = Repair(files, _NOTHING)
        broker = _broker_of(found)
        lost = {
            position for chunk in live_positions(broker) for position in chunk if not found.stores(position)
        }
        repaired = Repaired(found.damages, lost=forget(broker, lost))
        repaired.waiting = sum(map(len, live_positions(broker)))
        has_losses = found.has_losses or bool(lost)
        if not dry_run and (skip_damaged or not has_losses) and (found.damages or lost):
            repaired.kept = found.apply(take_snapshot(broker) if lost or found.has_gaps else None)
    finally:
        lock.close()
    return repaired


def _broker_of(found: Repair) -> Broker:
    """The broker that all that can be read describes."""
    broker = Broker()
    recovered = Recovery(broker)
    if found.snapshot is not None:
        recovered.load(found.snapshot)
    for batch in found.batches():
        recovered.apply(batch.destinations, batch.first_position, batch.records)
    recovered.finish(found.next_position)
    return broker


def _snapshot(journal: SegmentJournal, broker: Broker) -> None:
    journal.snapshot(broker.turn.next_position, [take_snapshot(broker)], _succeed)


def _succeed(error: BaseException | None) -> None:
    if error is not None:
        raise error


def _size(directory: Path) -> int:
    return sum(path.stat().st_blocks * 512 for path in directory.iterdir() if path.is_file())
