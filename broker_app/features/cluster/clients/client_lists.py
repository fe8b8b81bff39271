"""The brokers that clients may go to: the list that they are sent (ActiveMQ's `updateClusterClients`).

A broker that has joined stays on the list when it leaves, unless `on_remove`. This broker is the last on it.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final

from broker_app.base.settings import name_filter
from broker_app.base.settings.transport_connectors import ListSettings
from broker_app.features.cluster.clients.client_reports import ListPlace, ListPlaceState, ListVersion

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
        self._keep("this broker started", 1)

    def replaced(self, settings: ListSettings, linked: Mapping[str, Uris], version: int) -> ClientLists:
        """The list by other settings, as its `version`: of the brokers on this one and those that are
        `linked` now."""
        lists = ClientLists(self._own, settings, published=self._published, clock=self._clock)
        known = {**self._others, **linked}
        lists._others = {broker: uris for broker, uris in known.items() if lists._accepts(broker, uris)}
        lists._versions = self._versions.copy()
        lists._keep("the settings changed", version)
        return lists

    @property
    def present(self) -> ListVersion:
        """The present list."""
        return self._versions[-1]

    @property
    def version(self) -> int:
        """The number of the present list, starting at 1."""
        return self.present.version

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
        if not self._accepts(broker, uris):
            return False
        if self._others.get(broker) != tuple(uris):
            self._others[broker] = tuple(uris)
            self._changed(f"{broker} joined")
        return True

    def left(self, broker: str) -> None:
        """Remove a broker, if clients are to be sent lists without it."""
        if self.settings.on_remove and self._others.pop(broker, None) is not None:
            self._changed(f"{broker} left")

    def places(self, known: Collection[str], linked: Collection[str]) -> list[ListPlace]:
        """The place of each broker that is `known` on this list; none if it is not sent to clients."""
        if not self.settings.updates:
            return []
        return [
            ListPlace(broker=broker, state=self._place(broker, is_linked=broker in linked))
            for broker in sorted({*known, *self._others})
        ]

    def _place(self, broker: str, *, is_linked: bool) -> ListPlaceState:
        if broker in self._others:
            return "listed" if is_linked else "left"
        if not self._accepted.accepts(broker):
            return "filtered"
        return "no-address" if is_linked else "away"

    def _accepts(self, broker: str, uris: Sequence[str]) -> bool:
        return bool(uris) and self._accepted.accepts(broker)

    def _changed(self, cause: str) -> None:
        self._keep(cause, self.version + 1)
        self._published(self)

    def _keep(self, cause: str, number: int) -> None:
        self._versions.append(
            ListVersion(version=number, since=self._clock(), cause=cause, uris=list(self.uris))
        )
