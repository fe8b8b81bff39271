"""Copies the journal of a stopped broker to another backend: between places that an operator names."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from broker_app.core.broker import Broker
from broker_app.core.durability.recovery import Recovery, live_positions
from broker_app.journal.copy_mark import mark_in_files, mark_in_store, refuse_incomplete
from broker_app.journal.errors import JournalDamaged, JournalError
from broker_app.journal.files import Files
from broker_app.journal.log import meta
from broker_app.journal.port import FIRST_POSITION
from broker_app.journal.shared.shared_journal import stored_batch
from broker_app.journal.store import Store
from broker_app.journal.tools import copy
from broker_app.journal.tools.content import FilesContent, JournalContent, StoreContent
from broker_app.journal.tools.copy import Copied, Progress
from broker_app.journal.tools.copy_target import CopyTarget, FilesTarget, StoreTarget
from broker_app.journal.tools.holding import StoreHold, locked
from broker_app.storage.factory import is_address, store_at

#: the directory of segment files in a data directory
JOURNAL = "journal"
_PURPOSE = "mom journal copy"


class NoJournal(JournalError):
    """There is no journal at the place that was named."""


def copy_journal(source: str, target: str, name: str, progress: Progress) -> Copied:
    """Copy the journal of broker `name`. Both places are a data directory or the address of a store.

    Raises ConfigError for an address that is not one of a store, JournalInUse, NoJournal, JournalExists and
    the other errors of journals.
    """
    with _source(source, name) as original, _target(target, name) as copied:
        return copy.copy(original, copied, live_records, progress)


def is_same_place(one: str, other: str) -> bool:
    """Return whether two places are one, as far as their texts show it."""
    if is_address(one) or is_address(other):
        return one.rstrip("/") == other.rstrip("/")
    return Path(one).resolve() == Path(other).resolve()


@contextmanager
def _source(place: str, name: str) -> Iterator[JournalContent]:
    if is_address(place):
        with _held(store_at(place, name), is_source=True) as (store, hold):
            hold.keep()
            refuse_incomplete(mark_in_store(store), store.description)
            yield StoreContent(store, hold.grant, hold.check)
    else:
        files = Files(_journal_of(Path(place)))
        with locked(files):
            refuse_incomplete(mark_in_files(files), files.directory)
            yield FilesContent(files)


@contextmanager
def _target(place: str, name: str) -> Iterator[CopyTarget]:
    if is_address(place):
        with _held(store_at(place, name), is_source=False) as (store, hold):
            yield StoreTarget(store, hold)
    else:
        files = Files(Path(place) / JOURNAL)
        files.create_directory()
        with locked(files):
            yield FilesTarget(files)


@contextmanager
def _held(store: Store, *, is_source: bool) -> Iterator[tuple[Store, StoreHold]]:
    if is_source and store.lease() is None:
        store.release()
        raise NoJournal(
            f"{store.description} contains no journal; name the store that the broker uses, and the name of "
            "the broker with --name"
        )
    with closing(StoreHold(store, _PURPOSE)) as hold:
        yield store, hold


def _journal_of(data: Path) -> Path:
    """The directory of segment files. Raises NoJournal."""
    if _has_journal(data / JOURNAL):
        return data / JOURNAL
    fix = "name the data directory of the broker (MOM_DATA)"
    if _has_journal(data):
        fix = f"{data} is the journal itself; name the data directory that it is in"
    raise NoJournal(f"there is no journal in {data}; {fix}")


def _has_journal(directory: Path) -> bool:
    return (directory / meta.META).exists() or any(directory.glob("*.seg"))


def live_records(content: JournalContent) -> Iterator[array[int]]:
    """The positions of all records that a broker would need that starts with this journal, in chunks.

    Raises JournalDamaged.
    """
    broker = Broker()
    try:
        _recover(broker, content)
    except ValueError as error:
        raise JournalDamaged(f"{content.description}: {error}") from error
    return live_positions(broker)


def _recover(broker: Broker, content: JournalContent) -> None:
    recovery = Recovery(broker)
    position = FIRST_POSITION
    snapshot = content.snapshot()
    if snapshot is not None:
        position, state = snapshot
        recovery.load(state)
    for frame in content.log(position):
        batch = stored_batch(frame)
        if batch is None or batch.first_position != position:
            raise JournalDamaged(
                f"{content.description}: the batch at position {position} is missing or damaged; restore it "
                "from a backup"
            )
        recovery.apply(batch.destinations, batch.first_position, batch.records)
        position += batch.count
    recovery.finish(position)
