"""Cursors: named positions up to which programs have read the log. They keep what is behind them stored.

All of them are one small document: a file of the journal's directory, or a note of the store.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, NamedTuple, Protocol

from broker_app.journal import codec
from broker_app.journal.errors import JournalDamaged, JournalFailed, TooManyCursors
from broker_app.journal.files import Files
from broker_app.journal.log.log_reader import outside
from broker_app.journal.port import CursorState, Done, Span
from broker_app.journal.store import Store
from broker_app.journal.worker import CallSoon, Worker

MAX_CURSORS: Final = 100
NAME: Final = re.compile(r"[a-z0-9._:-]{1,100}")
#: bytes of log that cursors keep at most, and seconds after its last report for which a cursor does
KEPT_BYTES: Final = 1 << 30
KEPT_S: Final = 7 * 24 * 3600.0
#: the file, and the key of the note
FILE, NOTE = "cursors.json", "cursors"
FORMAT: Final = 1


class Cursor(NamedTuple):
    """Everything before `position` was read, as reported then (µs since 1970)."""

    position: int
    reported_us: int


class Document(Protocol):
    """The place of the document. Its methods block."""

    def read(self) -> bytes | None:
        """The content; None if nothing was written yet."""
        ...

    def write(self, content: bytes) -> None:
        """Replace the content atomically and durably."""
        ...


class FileDocument:
    """A file of the journal's directory."""

    def __init__(self, files: Files) -> None:
        self._files = files

    def read(self) -> bytes | None:
        """See `Document.read`."""
        return self._files.content(FILE) if FILE in self._files.names() else None

    def write(self, content: bytes) -> None:
        """See `Document.write`."""
        self._files.replace(FILE, content)
        self._files.sync_directory()


class NoteDocument:
    """A note of a shared store, which its next holder reads, too."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def read(self) -> bytes | None:
        """See `Document.read`."""
        note = self._store.notes(NOTE).get(NOTE)
        return None if note is None else note.content

    def write(self, content: bytes) -> None:
        """See `Document.write`."""
        self._store.put_holder_note(NOTE, content)


class Cursors:
    """All cursors of a journal; belongs to the loop's thread. One that was not reported for `kept_s` keeps no
    log, and stays listed until it is dropped. `moved` is called when another position is the smallest."""

    def __init__(
        self,
        document: Document,
        call_soon_threadsafe: CallSoon | None,
        *,
        kept_s: float = KEPT_S,
        moved: Callable[[], None],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._document = document
        self._kept_us = round(kept_s * 1_000_000)
        self._moved = moved
        self._clock = clock
        self._worker = Worker("journal-cursors", call_soon_threadsafe)
        self._known: dict[str, Cursor] = {}
        self._waiting: list[Done] = []
        self._writing = False

    def recover(self) -> list[str]:
        """Read the document. Returns a sentence for the log if it cannot be read; there are none then."""
        try:
            content = self._document.read()
            self._known = {} if content is None else decode(content)
        except (JournalDamaged, JournalFailed) as error:
            why = f"the cursors of the journal's readers are forgotten: {error}"
            return [f"{why}; a reader whose log is let go meanwhile is refused"]
        return []

    def set(self, name: str, position: int, span: Span, done: Done) -> None:
        """See `port.Journal.set_cursor`; `span` is that of the journal now."""
        if NAME.fullmatch(name) is None:
            raise ValueError(
                f"{name[:100]!r} is no name of a cursor: 1 to 100 of a-z, 0-9, '.', '_', ':', '-'"
            )
        if not span.low <= position <= span.end:
            done(outside(position, span))
        elif name not in self._known and len(self._known) >= MAX_CURSORS:
            done(TooManyCursors(f"there are {MAX_CURSORS} cursors already; drop one that is not used"))
        else:
            self._change({**self._known, name: Cursor(position, self._now_us())}, done)

    def drop(self, name: str, done: Done) -> None:
        """See `port.Journal.drop_cursor`."""
        self._change({known: cursor for known, cursor in self._known.items() if known != name}, done)

    def states(self, low: int) -> dict[str, CursorState]:
        """See `port.Journal.cursors`; `low` is where the log begins now."""
        return {
            name: CursorState(
                position,
                reported_us,
                Span(position, low) if position < low else None,
                self._keeps(reported_us),
            )
            for name, (position, reported_us) in sorted(self._known.items())
        }

    @property
    def first(self) -> int | None:
        """The smallest position from which on the log has to be kept; None if there is none."""
        kept = (cursor.position for cursor in self._known.values() if self._keeps(cursor.reported_us))
        return min(kept, default=None)

    def _keeps(self, reported_us: int) -> bool:
        return self._now_us() - reported_us < self._kept_us

    def _now_us(self) -> int:
        return round(self._clock() * 1_000_000)

    def _change(self, known: dict[str, Cursor], done: Done) -> None:
        before, self._known = self.first, known
        self._waiting.append(done)
        if not self._writing:
            self._write()
        if self.first != before:
            self._moved()

    def _write(self) -> None:
        """Write all of them; those that are set meanwhile are written together after that."""
        self._writing = True
        waiting, self._waiting = self._waiting, []
        job = partial(self._document.write, encode(self._known))
        self._worker.submit(job, partial(self._written, waiting))

    def _written(self, waiting: list[Done], _: None, error: Exception | None) -> None:
        self._writing = False
        for done in waiting:
            done(error)
        if self._waiting and not self._writing:
            self._write()

    def close(self) -> None:
        """Finish the write in progress."""
        self._worker.close()


def encode(cursors: Mapping[str, Cursor]) -> bytes:
    """The document."""
    content = {"format": FORMAT, "cursors": {name: list(cursor) for name, cursor in cursors.items()}}
    return json.dumps({**content, "checksum": _checksum(content)}).encode() + b"\n"


def decode(content: bytes) -> dict[str, Cursor]:
    """The cursors of a document. Raises JournalDamaged."""
    try:
        stored = json.loads(content)
        if stored.pop("checksum") != _checksum(stored):
            raise ValueError("its checksum is wrong")
        if stored["format"] != FORMAT:
            raise ValueError(f"format {stored['format']} is not known to this version of MOM")
        return {name: Cursor(*map(int, cursor)) for name, cursor in stored["cursors"].items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise JournalDamaged(f"their document is damaged ({error})") from error


def _checksum(content: Mapping[str, object]) -> int:
    return codec.checksum(json.dumps(content, sort_keys=True).encode())
