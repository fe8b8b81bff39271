"""The brokers that clients may go to: the list that they are sent (ActiveMQ's `updateClusterClients`).

A broker that has joined stays on the list when it leaves, unless `on_remove`. This broker is the last on it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from broker_app.base.name_filter import NameFilter

Uris = tuple[str, ...]


class ClientLists:
    """The present list. `published` is called with each other one."""

    def __init__(
        self,
        own: Uris,
        accepted: NameFilter,
        *,
        on_remove: bool,
        published: Callable[[Uris], None],
    ) -> None:
        self._own = own
        self._accepted = accepted
        self._on_remove = on_remove
        self._published = published
        #: addresses by broker, in the order in which they have joined
        self._others: dict[str, Uris] = {}
        #: how often the list has changed
        self.version = 0

    @property
    def uris(self) -> Uris:
        """The addresses of all brokers, those of this one last."""
        others = [uri for uris in self._others.values() for uri in uris]
        return tuple(dict.fromkeys((*others, *self._own)))

    def uris_of(self, broker: str) -> Uris:
        """The addresses of one broker; empty for one that is not offered."""
        return self._others.get(broker, ())

    def joined(self, broker: str, uris: Sequence[str]) -> bool:
        """Add a broker; returns whether it is offered to clients."""
        if not uris or not self._accepted.accepts(broker):
            return False
        if self._others.get(broker) != tuple(uris):
            self._others[broker] = tuple(uris)
            self._changed()
        return True

    def left(self, broker: str) -> None:
        """Remove a broker, if clients are to be sent lists without it."""
        if self._on_remove and self._others.pop(broker, None) is not None:
            self._changed()

    def _changed(self) -> None:
        self.version += 1
        self._published(self.uris)
