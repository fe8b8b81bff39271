"""The shared journal that the broker of a data directory has used: it serves no other one by mistake.

An unmounted directory and a database that was emptied look like a journal that was never used. A broker that
began an empty one there would serve at the same time as the broker that has the right one.
"""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Final, NamedTuple

from broker_app.config import Config
from broker_app.journal.errors import JournalError
from broker_app.storage.factory import make_store

log = logging.getLogger(__name__)

#: file of the data directory
FILE: Final = "shared_journal"


class ForeignJournal(JournalError):
    """The journal is not the one that this broker has used."""


class _Known(NamedTuple):
    """The tag of a journal, and where it was."""

    tag: int
    place: str


class JournalIdentity:
    """Remembers the journal of a broker in its data directory."""

    def __init__(self, data: Path, generation: int = 0) -> None:
        self._path = data / (f"{FILE}.{generation}" if generation else FILE)
        self._known = self._read()

    def check(self, tag: int | None, place: str) -> None:
        """Raise ForeignJournal unless this is the tag of the journal that was used, or none was used yet.

        `tag` is None for a journal in `place` that was never used.
        """
        if self._known is None or self._known.tag == tag:
            return
        found = "is empty" if tag is None else "is another one"
        raise ForeignJournal(
            f"the journal in {place} {found}, and this broker has used one in {self._known.place}: mount its "
            f"directory, or correct MOM_JOURNAL; to begin with this one, delete {self._path}"
        )

    def note(self, tag: int, place: str) -> None:
        """This broker serves with a journal now."""
        if self._known == (tag, place):
            return
        self._known = _Known(tag, place)
        draft = self._path.with_suffix(".new")
        try:
            draft.write_text(json.dumps(self._known._asdict()), encoding="utf-8")
            draft.replace(self._path)
        except OSError as error:  # a full disk: messages are still served
            log.warning("the journal that is used could not be noted in %s: %s", self._path, error.strerror)

    def _read(self) -> _Known | None:
        try:
            return _Known(**json.loads(self._path.read_text(encoding="utf-8")))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, TypeError) as error:
            log.warning("%s cannot be read, and is not used: %s", self._path, error)
            return None


def check(config: Config) -> None:
    """Raise ForeignJournal unless the shared journal is the one that was used. Raises JournalError."""
    store = make_store(config)
    try:
        JournalIdentity(config.data, config.journal_generation).check(store.tag(), store.description)
    finally:
        store.release()
