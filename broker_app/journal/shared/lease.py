"""The lease of a shared journal: renewed in a thread of its own, so that nothing that blocks can delay it."""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Event, Thread

from broker_app.journal.errors import JournalError, JournalFailed
from broker_app.journal.store import Fenced, Store

#: a lease is renewed so many times while it lasts
_RENEWALS = 4


def seconds() -> float:
    """Seconds that are counted while the machine sleeps, too: the lease ends then."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class LeaseKeeper:
    """Renews the lease until `close`. Calls `lost` once, in its own thread, when it is another's, or has
    expired without an answer of the store: then the broker must stop to serve."""

    def __init__(
        self,
        store: Store,
        lease_s: float,
        lost: Callable[[JournalFailed], None],
        clock: Callable[[], float] = seconds,
    ) -> None:
        self._store = store
        self._lease_s = lease_s
        self._lost = lost
        self._clock = clock
        self._renewed_at = clock()
        self._closing = Event()
        self._thread: Thread | None = None

    def start(self, acquired_at: float) -> None:
        """Keep the lease that was asked for at `acquired_at` of the clock."""
        self._renewed_at = acquired_at
        self._thread = Thread(target=self._run, name="journal-lease", daemon=True)
        self._thread.start()

    @property
    def left_s(self) -> float:
        """Seconds for which the lease is certainly held; the store may give it a little longer."""
        return self._renewed_at + self._lease_s - self._clock()

    def renew(self) -> None:
        """Renew the lease once. Raises Fenced and Unreachable."""
        asked_at = self._clock()
        self._store.renew(self._lease_s)
        self._renewed_at = asked_at

    def close(self) -> None:
        """Renew no more; the lease is still held."""
        self._closing.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def _run(self) -> None:
        while not self._closing.wait(self._lease_s / _RENEWALS):
            try:
                self.renew()
            except Fenced as error:
                self._renewed_at = self._clock() - self._lease_s  # it has ended before its time
                self._lost(error)
                return
            except JournalError as error:
                if self.left_s <= 0:
                    self._lost(
                        JournalFailed(f"the lease of the journal expired before it could be renewed: {error}")
                    )
                    return
