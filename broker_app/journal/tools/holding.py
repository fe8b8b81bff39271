"""Holds a journal from outside a broker: no broker can start with it, nor take it over, meanwhile."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Final

from broker_app.journal.errors import JournalFailed, JournalInUse
from broker_app.journal.files import Files
from broker_app.journal.log import meta
from broker_app.journal.shared.lease import LeaseKeeper, seconds
from broker_app.journal.store import Grant, Holder, LeaseHeld, Store

#: so long a store refuses other holders after this process was killed
LEASE_S: Final = 5.0


@contextmanager
def locked(files: Files) -> Iterator[None]:
    """Hold the lock of a directory. Raises JournalInUse."""
    with closing(meta.lock(files)):
        yield


class StoreHold:
    """The lease of a store, which is renewed after `keep`, until `close`."""

    def __init__(self, store: Store, purpose: str) -> None:
        self._store = store
        self._lost: JournalFailed | None = None
        self._keeper = LeaseKeeper(store, LEASE_S, self._note)
        self._asked_at = seconds()
        #: the lease as it was granted
        self.grant = _acquire(store, f"{purpose} (process {os.getpid()} on {socket.gethostname()})")

    def keep(self) -> None:
        """Renew the lease in a thread."""
        self._keeper.start(self._asked_at)

    def check(self) -> None:
        """Raise JournalFailed if the lease was lost."""
        if self._lost is not None:
            raise self._lost

    def close(self) -> None:
        """Release the lease."""
        self._keeper.close()
        self._store.release()

    def _note(self, error: JournalFailed) -> None:
        self._lost = error


def _acquire(store: Store, name: str) -> Grant:
    try:
        return store.acquire(Holder(name), LEASE_S)
    except LeaseHeld as error:
        holder, left_s = error.state.holder, max(0.0, error.state.left_s)
        place = f" at {holder.address}" if holder.address else ""
        store.release()
        raise JournalInUse(
            f"{store.description}: the journal is in use by {holder.name}{place}, which holds it for "
            f"{left_s:.1f} s more; stop it, then try again"
        ) from None
    except BaseException:
        store.release()
        raise
