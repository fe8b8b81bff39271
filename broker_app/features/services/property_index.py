"""Indexes of seeds and services by the properties of services.

A condition such as `type = 'shop' AND machine LIKE 'h%'` needs a service with one of a few values of a
property. Seeds are found by those of a service and services by those of a seed, so a pair that cannot match
costs nothing.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Final, Generic, NamedTuple, TypeVar

from broker_app.core.selectors.selector import Anchors
from broker_app.features.services.registry import Service
from broker_app.reflex.registration import Registration

#: (property, value) pairs
Pairs = tuple[tuple[str, str], ...]
_Item = TypeVar("_Item", bound=Hashable)


class Facts(NamedTuple):
    """The properties of a service, by name, as conditions compare them."""

    name: str
    user: str
    machine: str
    type: str
    events: str

    @classmethod
    def of(cls, registration: Registration) -> Facts:
        """Return those of a registration."""
        given = registration
        return cls(given.name, given.user, given.machine, given.type, ",".join(given.events))

    @property
    def pairs(self) -> Pairs:
        """Each property with its value."""
        return tuple(zip(self._fields, self, strict=True))


_PROPERTIES: Final = frozenset(Facts._fields)


def pairs_needed(anchors: Anchors) -> Pairs | None:
    """The pairs of which a service must have one to match a condition, as few as possible; None if the
    condition names none."""
    texts = (
        tuple((name, value) for value in values if isinstance(value, str))
        for name, values in anchors.items()
        # A number equals several texts, such as 5 and 5.0.
        if name in _PROPERTIES and all(isinstance(value, str) for value in values)
    )
    return min(texts, key=len, default=None)


class PairIndex(Generic[_Item]):
    """Items, each under its pairs, or under none."""

    def __init__(self) -> None:
        self._by_pair: dict[tuple[str, str], dict[_Item, None]] = {}
        self._unpaired: dict[_Item, None] = {}

    def add(self, item: _Item, pairs: Pairs | None) -> None:
        """Add an item under pairs; None: whatever is looked for may concern it."""
        if pairs is None:
            self._unpaired[item] = None
            return
        for pair in pairs:
            self._by_pair.setdefault(pair, {})[item] = None

    def discard(self, item: _Item, pairs: Pairs | None) -> None:
        """Remove an item from where it was added."""
        if pairs is None:
            self._unpaired.pop(item, None)
            return
        for pair in pairs:
            items = self._by_pair.get(pair)
            if items is not None:
                items.pop(item, None)
                if not items:
                    del self._by_pair[pair]

    def of(self, pairs: Pairs) -> list[_Item]:
        """The items under any of the pairs, and those under none."""
        found = dict(self._unpaired)
        for pair in pairs:
            found.update(self._by_pair.get(pair, {}))
        return list(found)


class ServiceIndex:
    """The services of a registry by their properties. `put` each that registers or changes."""

    def __init__(self) -> None:
        self._index: PairIndex[str] = PairIndex()
        self._services: dict[str, tuple[Service, Pairs]] = {}

    def put(self, service: Service) -> None:
        """Add a service, or move one whose properties have changed."""
        self.discard(service)
        pairs = Facts.of(service.registration).pairs
        self._services[service.id] = service, pairs
        self._index.add(service.id, pairs)

    def discard(self, service: Service) -> None:
        """Remove a service that has ended."""
        _, pairs = self._services.pop(service.id, (service, ()))
        self._index.discard(service.id, pairs)

    def matching(self, pairs: Pairs | None) -> list[Service]:
        """The services that have one of the pairs; all for None."""
        if pairs is None:
            return [service for service, _ in self._services.values()]
        return [self._services[id][0] for id in self._index.of(pairs)]

    def __iter__(self) -> Iterator[Service]:
        return (service for service, _ in self._services.values())
