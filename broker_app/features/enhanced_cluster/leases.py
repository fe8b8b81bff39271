"""The leases of journals that may have to be taken over."""

from __future__ import annotations

from collections.abc import Callable, Collection

from broker_app.journal.store import LeaseState, Store


class Leases:
    """Belongs to the thread of the watch. `make_store` makes the store of a journal, with connections of its
    own: of these a server has a limited number."""

    def __init__(self, make_store: Callable[[str], Store]) -> None:
        self._make_store = make_store
        self._stores: dict[str, Store] = {}

    def of(self, journal: str) -> LeaseState | None:
        """The lease of a journal as it is; None if it was never held. Raises JournalError."""
        store = self._stores.get(journal)
        if store is None:
            store = self._stores[journal] = self._make_store(journal)
        return store.lease()

    def keep(self, journals: Collection[str]) -> None:
        """Close the connections to all others."""
        for journal in self._stores.keys() - journals:
            self._stores.pop(journal).release()

    def close(self) -> None:
        """Close all connections."""
        self.keep(())


def is_over(lease: LeaseState) -> bool:
    """Return whether the holder of a lease has lost it, or has given it back."""
    return lease.is_released or lease.left_s <= 0
