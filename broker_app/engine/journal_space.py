"""The space for messages in the journal, which the core needs to know only when it becomes scarce."""

from __future__ import annotations

from broker_app.core.commands import StoreSpace
from broker_app.journal.port import Journal

#: the journal is asked again after so many bytes of commands; a turn counts as some of them
UNASKED_BYTES, TURN_BYTES = 256 * 1024, 1024


class SpaceCheck:
    """`plenty` is more than one turn can take: with so much space nothing is reported to the core."""

    def __init__(self, journal: Journal, plenty: int) -> None:
        self._journal = journal
        self._plenty = plenty
        #: bytes that may still be stored by a limit of the administrator; None without a limit
        self.store_left: int | None = None
        self._scarce = False
        self._unasked = 0

    def is_due(self, size: int) -> bool:
        """True if the space has to be checked before commands of `size` bytes."""
        self._unasked -= size + TURN_BYTES
        return self._scarce or self._unasked < 0

    def check(self, size: int) -> StoreSpace | None:
        """The command that reports the space to the core; None if there is plenty, as before."""
        space = self._journal.available_bytes()
        if self.store_left is not None:
            space = max(0, min(space, self.store_left))
        was_scarce, self._scarce = self._scarce, space < self._plenty
        self._unasked = UNASKED_BYTES
        if not (self._scarce or was_scarce):
            return None
        # Records are longer than the size of their messages here.
        return StoreSpace(max(0, space - 2 * size) if self._scarce else None)

    def check_soon(self) -> None:
        """Check before the next commands."""
        self._unasked = 0

    def written(self, size: int) -> None:
        """Subtract what is being stored."""
        if self.store_left is not None:
            self.store_left -= size
