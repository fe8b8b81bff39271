"""The space of a shared store: known before an append would fail, as far as the store reports it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from threading import Event

from broker_app.journal.errors import JournalError
from broker_app.journal.log.free_space import FreeSpace, SpaceMonitor
from broker_app.journal.store import Store
from broker_app.journal.worker import CallSoon

log = logging.getLogger(__name__)

#: the space while the store does not report that it is limited
_AMPLE = 1 << 50


class SharedSpace:
    """Belongs to the loop's thread, but for `refused` and `stored`, which are the committer's.

    New messages are refused while `keep` bytes are left, for what settles those that wait and for the
    snapshot that lets their space come back. `short` is called, in the loop, when that begins.
    """

    def __init__(
        self, store: Store, keep: int, call_soon_threadsafe: CallSoon | None, short: Callable[[], None]
    ) -> None:
        self._store = store
        self._call_soon = call_soon_threadsafe
        self._short = short
        self._level = FreeSpace(keep)
        self._monitor = SpaceMonitor(self._measure, call_soon_threadsafe, self._measured)
        #: free bytes of the store, as it reported last; None if it does not
        self.free: int | None = None
        #: set while an append finds no space
        self._full = Event()
        self._was_short = False

    def start(self) -> None:
        """Measure at once, and from now on."""
        self._monitor.start()

    @property
    def is_short(self) -> bool:
        """True while new messages must be refused."""
        return self._full.is_set() or (self.free is not None and self._level.short)

    def available_bytes(self) -> int:
        """Bytes that new messages may still take; 0 while they must be refused."""
        if self._full.is_set():
            return 0
        return _AMPLE if self.free is None else self._level.left(0, 0, starved=False)

    def take(self, size: int) -> None:
        """A frame of so many bytes was stored."""
        self._level.take(size + size // 4)  # around a frame are its place in the log, and unused memory

    def refused(self, error: Exception) -> None:
        """An append found no space. It is repeated until there is some, and nothing else is stored before."""
        if not self._full.is_set():
            self._full.set()
            log.error("nothing can be stored until there is space again: %s", error)
            if self._call_soon is not None:
                self._call_soon(self._short)

    def stored(self) -> None:
        """An append was stored."""
        if self._full.is_set():
            self._full.clear()
            log.warning("%s has space again", self._store.description)

    def _measure(self) -> int | None:
        try:
            return self._store.free_bytes()
        except JournalError:
            return self.free  # as it was: commits will show whether it can be reached

    def _measured(self, free: int | None) -> None:
        self.free = free
        if free is not None:
            self._level.measured(free)
            self._level.left(0, 0, starved=False)  # updates whether it is short
        if self.is_short and not self._was_short:
            self._short()
        self._was_short = self.is_short

    def close(self) -> None:
        """Stop measuring."""
        self._monitor.close()
