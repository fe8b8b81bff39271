"""The ways to a journal: segment files of a running broker, a shared store, or the broker itself over HTTP.

All have the methods of `Journal`. Those that are imported need nothing but what they use.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple, Protocol
from urllib.parse import unquote, urlsplit

from broker_app.journal import codec
from pyspark_mom.credentials import Credential
from pyspark_mom.option_types import FILE, HTTP
from pyspark_mom.options import Options


class Span(NamedTuple):
    """The positions that a journal has, from `low` to before `end`: without a gap, and durable. `tag` is that
    of the journal for all its life, `epoch` grows with every holder."""

    low: int
    end: int
    epoch: int
    tag: int


class StoredFrame(NamedTuple):
    """A whole frame, as it is stored, and its header."""

    frame: codec.Frame
    content: bytes


class Journal(Protocol):
    """Raises BrokerUnreachable when trying again may help, else AccessDenied or JournalUnreadable."""

    def span(self) -> Span:
        """The positions that can be read now."""
        ...

    def frames(self, start: int, end: int) -> Iterator[StoredFrame]:
        """The whole frames that overlap the positions from `start` to before `end`, in order, as far as they
        are still stored. `end` is at most that of a `span`. Their checksums are not compared."""
        ...

    def position_at(self, time_us: int) -> int:
        """The first position whose batch was written at that time (µs since 1970) or later; the end without
        one."""
        ...

    def close(self) -> None:
        """Close files and connections; they are opened again when they are needed."""
        ...


def first_at(frames: Iterator[StoredFrame], time_us: int, end: int) -> int:
    """The first position of frames that were written at a time or later; `end` without one."""
    return next((found.frame.first_position for found in frames if found.frame.time_us >= time_us), end)


def open_journal(name: str, options: Options) -> Journal:
    """The journal of a broker by its address; nothing is opened before it is used."""
    url = options.urls[name]
    address, credential = urlsplit(url), Credential(options.credential)
    if address.scheme == FILE:
        return _of_directory(name, Path(unquote(address.path)))
    if address.scheme in HTTP:
        from pyspark_mom.transport.http import HttpJournal

        return HttpJournal(name, url, credential, tls=options.tls, timeout_s=options.timeout_s)
    from pyspark_mom.transport.stores import StoreJournal, store_at

    return StoreJournal(name, partial(store_at, name, url, credential))


def _of_directory(name: str, directory: Path) -> Journal:
    """The journal in a directory that brokers share, if there is one of that name; else of one broker."""
    from broker_app.journal.stores.directory.store import FileStore

    store = FileStore(directory, name)
    if store.directory.is_dir():
        from pyspark_mom.transport.stores import StoreJournal

        return StoreJournal(name, lambda: store)
    from pyspark_mom.transport.segment_files import SegmentFiles

    return SegmentFiles(name, directory)
