"""The registry of services: programs that registered under a name, on whatever transport.

The messages of a service are those of the queue of its name. A registration ends with its connection, or with
its lease. Several programs may register under one name; they share the messages.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, NoReturn

from broker_app.base.internal_errors import EventListeners
from broker_app.base.refused import Refused
from broker_app.base.shares import Shares
from broker_app.features.services.origin import Origin, OriginRegistration, RegisterAtOrigin
from broker_app.reflex.registration import CALLBACKS, Registration, RegistrationVerdict

#: what happens to a service; listeners are called with it
REGISTERED, CHANGED, DEREGISTERED = "registered", "changed", "deregistered"
#: services of a node at most
MOST: Final = 20_000
#: seconds between two checks of leases
_CHECK_S: Final = 0.5


@dataclass(slots=True)
class Service:
    """One registration. An inactive service keeps its place and receives no copies of seed messages.
    `until_s` is when its lease ends (monotonic), None if it ends with its connection. At a
    callback broker `origin` is its registration at the remote broker."""

    id: str
    registration: Registration
    #: seconds since 1970
    since_s: float
    until_s: float | None
    active: bool = True
    origin: OriginRegistration | None = None
    #: the reason why its registration was ended by the broker
    lost: Refused | None = None

    @property
    def has_callbacks(self) -> bool:
        """True if a callback broker may serve it."""
        return self.registration.has_callbacks

    def ends_within_s(self) -> float | None:
        """Seconds to the end of its lease; None if it ends with its connection."""
        return None if self.until_s is None else max(0.0, self.until_s - time.monotonic())


async def _accept(registration: Registration) -> RegistrationVerdict:
    return RegistrationVerdict(True, registration)


def _ignore(registration: Registration) -> None:
    """Do nothing."""


async def _no_origins(
    registration: Registration, origin: Origin, lost: Callable[[Refused], None]
) -> OriginRegistration:
    raise Refused(
        "unsupported",
        "this broker is no callback broker, so a service cannot have an origin here: register there",
    )


class ServiceRegistry:
    """All services of the node. `admit` is asked about each registration first, and `dismissed` is called
    when one that was admitted has ended; `register_at_origin` carries out those with an origin."""

    def __init__(self) -> None:
        self.admit: Callable[[Registration], Awaitable[RegistrationVerdict]] = _accept
        self.dismissed: Callable[[Registration], None] = _ignore
        self.register_at_origin: RegisterAtOrigin = _no_origins
        self._services: dict[str, Service] = {}
        self._by_name: dict[str, dict[str, Service]] = {}
        self._numbers = itertools.count(1)
        self._shares = Shares(lambda: MOST, "services", "deregister some", "too-many")
        self.listeners: EventListeners[[str, Service]] = EventListeners("the listeners of services")

    def __len__(self) -> int:
        return len(self._services)

    def all(self) -> Iterator[Service]:
        """All services, in the order of their registration."""
        return iter(self._services.values())

    def find(self, id: str) -> Service | None:
        return self._services.get(id)

    def named(self, name: str) -> list[Service]:
        """The services of a name, in the order of their registration."""
        return list(self._by_name.get(name, {}).values())

    async def register(
        self,
        registration: Registration,
        lease_s: float | None = None,
        origin: Origin | None = None,
        *,
        admin: bool = False,
    ) -> Service:
        """Add a service, which ends with its connection, or after `lease_s`. Raises Refused when a reflex
        refuses it, when there are too many, and when its origin refuses it. `admin` is True for one of an
        administrator."""
        self._shares.take(registration.user, admin=admin)
        try:
            return await self._admit(registration, lease_s, origin)
        except BaseException:
            self._shares.add(registration.user, -1)
            raise

    async def _admit(
        self, registration: Registration, lease_s: float | None, origin: Origin | None
    ) -> Service:
        verdict = await self.admit(registration)
        if not verdict.accepted:
            facts = {"reflex": verdict.reflex, **verdict.facts}
            raise Refused("registration-refused", verdict.reason, **facts)
        until_s = None if lease_s is None else time.monotonic() + lease_s
        service = Service(f"s{next(self._numbers)}", verdict.registration, time.time(), until_s)
        if origin is not None:
            try:
                service.origin = await self.register_at_origin(
                    service.registration, origin, partial(self._lost, service)
                )
            except BaseException:
                self.dismissed(service.registration)
                raise
            service.registration = service.registration.with_marks(frozenset((CALLBACKS,)))
        self._services[service.id] = service
        self._by_name.setdefault(registration.name, {})[service.id] = service
        self.listeners(REGISTERED, service)
        return service

    def change(self, service: Service, *, active: bool | None = None, **properties: object) -> None:
        """Change properties of a service: `type`, `machine`, `events`, or whether it is active."""
        service.registration = replace(service.registration, **properties)  # type: ignore[arg-type]
        if active is not None:
            service.active = active
        self.listeners(CHANGED, service)

    def renew(self, service: Service, lease_s: float) -> None:
        """Have a service end after `lease_s` from now."""
        service.until_s = time.monotonic() + lease_s

    def deregister(self, service: Service) -> None:
        """Remove a service. Twice is harmless."""
        if self._services.pop(service.id, None) is None:
            return
        self._shares.add(service.registration.user, -1)
        of_name = self._by_name[service.registration.name]
        del of_name[service.id]
        if not of_name:
            del self._by_name[service.registration.name]
        if service.origin is not None:
            service.origin.end()
        self.dismissed(service.registration)
        self.listeners(DEREGISTERED, service)

    def _lost(self, service: Service, refused: Refused) -> None:
        service.lost = refused
        self.deregister(service)

    async def run(self) -> NoReturn:
        """Remove services whose lease has ended, again and again."""
        while True:
            await asyncio.sleep(_CHECK_S)
            now = time.monotonic()
            for service in [one for one in self._services.values() if one.until_s is not None]:
                if service.until_s is not None and service.until_s <= now:
                    self.deregister(service)
