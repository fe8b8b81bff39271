"""Journals that may have to be taken over soon: they are read while it is not certain, so that little is left
to be read when it is."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from broker_app.features.enhanced_cluster.registry import JournalNote
from broker_app.features.enhanced_cluster.takeover import Takeover
from broker_app.journal.errors import JournalError
from broker_app.journal.store import Unreachable


class ReadAhead:
    """Belongs to the thread of the watch. `make` makes a takeover that has read nothing yet."""

    def __init__(self, make: Callable[[JournalNote], Takeover]) -> None:
        self._make = make
        self._takeovers: dict[str, Takeover] = {}

    @property
    def is_behind(self) -> bool:
        """True if there is more to be read at once."""
        return any(not takeover.has_read_all for takeover in self._takeovers.values())

    def keep(self, notes: Sequence[JournalNote]) -> None:
        """Forget all other journals: their holders are there again, or they have been taken over."""
        expected = {note.journal: note for note in notes}
        for journal, takeover in list(self._takeovers.items()):
            if journal not in expected or not takeover.is_of(expected[journal]):
                self._takeovers.pop(journal).leave()

    def read(self, note: JournalNote) -> None:
        """Read one of them for a fifth of a second at most. One that cannot be read is forgotten: to take it
        over fails with that. Raises Unreachable."""
        takeover = self._takeovers.get(note.journal)
        if takeover is None:
            takeover = self._takeovers[note.journal] = self._make(note)
        try:
            takeover.read_ahead()
        except Unreachable:
            raise
        except JournalError:
            self._takeovers.pop(note.journal).leave()

    def takeover(self, note: JournalNote) -> Takeover:
        """The takeover of a journal, with what was read of it."""
        found = self._takeovers.pop(note.journal, None)
        if found is not None and found.is_of(note):
            return found
        if found is not None:
            found.leave()
        return self._make(note)

    def close(self) -> None:
        """Forget all."""
        self.keep([])
