"""The brokers that clients may go to: the list that they are sent (ActiveMQ's `updateClusterClients`).

A broker that has joined stays on the list when it leaves, unless `on_remove`. This broker is the last on it.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from broker_app.base import name_filter
from broker_app.base.transport_connectors import ListSettings
from broker_app.features.cluster.clients.client_reports import ListVersion

Uris = tuple[str, ...]

#: former lists that are kept
_KEPT: Final = 50


class ClientLists:
    """The present list of the clients of listeners with the same settings. `published` is called after each
    change of it."""

    def __init__(
        self,
        own: Uris,
        settings: ListSettings,
        *,
        published: Callable[[ClientLists], None],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.settings = settings
        self._own = own
        self._accepted = name_filter.parse(settings.filter)
        self._published = published
        self._clock = clock
        #: addresses by broker, in the order in which they have joined
        self._others: dict[str, Uris] = {}
        self._versions: deque[ListVersion] = deque(maxlen=_KEPT)
        self._keep("this broker started")

    @property
    def version(self) -> int:
        """The number of the present list, starting at 1."""
        return self._versions[-1].version

    @property
    def versions(self) -> list[ListVersion]:
        """The present list and former ones, latest first."""
        return list(reversed(self._versions))

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
            self._changed(f"{broker} joined")
        return True

    def left(self, broker: str) -> None:
        """Remove a broker, if clients are to be sent lists without it."""
        if self.settings.on_remove and self._others.pop(broker, None) is not None:
            self._changed(f"{broker} left")

    def _changed(self, cause: str) -> None:
        self._keep(cause)
        self._published(self)

    def _keep(self, cause: str) -> None:
        number = self.version + 1 if self._versions else 1
        self._versions.append(
            ListVersion(version=number, since=self._clock(), cause=cause, uris=list(self.uris))
        )
