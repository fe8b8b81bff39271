"""The mark of a journal that is being copied into: until it is complete, no broker may serve from it."""

from __future__ import annotations

import json
from typing import Final, NamedTuple

from broker_app.journal.errors import JournalFailed
from broker_app.journal.files import Files
from broker_app.journal.store import Store

#: the name of the mark among the notes of a store, and among the files of a directory
NOTE: Final = "incomplete-copy"
FILE: Final = "incomplete-copy.json"


class CopyMark(NamedTuple):
    """The journal that is copied: its description and its tag."""

    origin: str
    tag: int

    def encode(self) -> bytes:
        """The content of the note or the file."""
        return json.dumps(self._asdict()).encode()


def mark_in_store(store: Store) -> CopyMark | None:
    """The mark of a store whose copy is incomplete."""
    note = store.notes(NOTE).get(NOTE)
    return None if note is None else CopyMark(**json.loads(note.content))


def mark_in_files(files: Files) -> CopyMark | None:
    """The mark of a directory whose copy is incomplete."""
    return CopyMark(**json.loads(files.content(FILE))) if FILE in files.names() else None


def refuse_incomplete(mark: CopyMark | None, place: object) -> None:
    """Raise JournalFailed for a journal that has a mark: it would serve a part of its messages."""
    if mark is not None:
        raise JournalFailed(
            f"{place}: the copy of {mark.origin} was interrupted, so this journal is incomplete; repeat "
            "`mom journal copy` from there, or start the broker with the original"
        )
