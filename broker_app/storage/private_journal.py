"""The private journal of a broker, compared with the shared one: refused when it is stale, and replaced."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, TypeVar

from broker_app.config import Config
from broker_app.journal.errors import JournalError, JournalFailed, JournalInUse
from broker_app.journal.port import FIRST_POSITION
from broker_app.journal.shared.shared_journal import missing_batch, stored_batch
from broker_app.journal.store import Store
from broker_app.journal.stores.directory.store import FileStore
from broker_app.storage.factory import make_store, private_store, store_at


class StalePrivateJournal(JournalError):
    """Another broker has served since the private journal was written."""


class NoPrivateJournal(JournalError):
    """There is no private journal in the directory."""


class Side(NamedTuple):
    """One of the two journals: `epoch` is None if it was never used, `position` is after its last record, and
    `is_held` reports whether a broker serves with it now."""

    journal: str
    place: str
    epoch: int | None
    holder: str
    position: int
    is_held: bool


class Comparison(NamedTuple):
    """Both journals of a broker."""

    private: Side
    shared: Side


def check(config: Config, own: str) -> None:
    """Raise StalePrivateJournal unless the broker with the id `own` may start with its private journal.

    Raises JournalError where one of the journals cannot be read.
    """
    private = private_store(config)
    if private is not None:
        with _released(make_store(config)) as shared, _released(private):
            refuse_stale(shared, private, own)


def refuse_stale(shared: Store, private: Store, own: str) -> None:
    """Raise StalePrivateJournal unless a broker with the id `own` may start with both journals.

    It may also if it was the last to serve, and was killed before its private journal had the epoch of that.
    """
    ours, theirs = private.lease(), shared.lease()
    if ours is None or (theirs is not None and (ours.epoch >= theirs.epoch or theirs.holder.name == own)):
        return
    private_one = f"private journal: {private.description}, epoch {ours.epoch}"
    shared_one = f"shared journal: {shared.description}"
    if theirs is None:
        raise StalePrivateJournal(
            f"the shared journal is empty, and the private one is not. {private_one}; {shared_one}, never "
            "used. Check MOM_JOURNAL; copy the private one there with `mom journal copy`, or set it aside "
            "with `mom journal replace-private`"
        )
    raise StalePrivateJournal(
        f"the private journal is older than the shared one. {private_one}; {shared_one}, epoch "
        f"{theirs.epoch} of {theirs.holder.name}. `mom journal replace-private` shows both, and sets the "
        "private one aside; start this broker after that"
    )


def compare(journal: str, directory: Path, name: str) -> Comparison:
    """Both journals of broker `name`: the shared one at an address, the private one in a directory.

    Raises ConfigError and JournalError.
    """
    with _released(store_at(journal, name)) as shared, _released(FileStore(directory, name)) as private:
        return Comparison(_side("private", private), _side("shared", shared))


def refuse_replacement(found: Comparison) -> None:
    """Raise NoPrivateJournal if there is nothing to replace, JournalInUse if a broker writes it now."""
    private, shared = found
    if private.epoch is None:
        raise NoPrivateJournal(f"there is no private journal in {private.place}: nothing has to be replaced")
    if shared.is_held and (shared.epoch, shared.holder) == (private.epoch, private.holder):
        raise JournalInUse(
            f"{private.holder} serves with this private journal, and keeps it in step with the shared one"
        )


def replace(directory: Path, name: str) -> Path:
    """Set the private journal of broker `name` aside; returns the directory where it is now.

    The broker copies the shared journal into a new one when it serves. Raises JournalFailed.
    """
    place = FileStore(directory, name).directory
    kept = place.with_name(f"replaced-{time.strftime('%Y%m%d-%H%M%S')}-{place.name}")
    try:
        return place.rename(kept)
    except OSError as error:
        raise JournalFailed(f"{place} could not be renamed to {kept.name}: {error}") from error


def _side(journal: str, store: Store) -> Side:
    lease = store.lease()
    position = store.snapshot_position() or FIRST_POSITION
    for content in store.frames(position):
        batch = stored_batch(content)
        if batch is None:
            raise missing_batch(store, position)
        position = batch.first_position + batch.count
    if lease is None:
        return Side(journal, store.description, None, "", FIRST_POSITION, is_held=False)
    return Side(
        journal, store.description, lease.epoch, lease.holder.name, position, is_held=lease.left_s > 0
    )


_Kind = TypeVar("_Kind", bound=Store)


@contextmanager
def _released(store: _Kind) -> Iterator[_Kind]:
    try:
        yield store
    finally:
        store.release()
