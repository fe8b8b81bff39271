"""The services that a JSON session has registered."""

from __future__ import annotations

from broker_app.base.refused import Refused
from broker_app.base.turns import in_turns
from broker_app.features.services.registry import Service, ServiceRegistry
from broker_app.net.json import operations as o
from broker_app.net.json.events import Registered
from broker_app.net.policy.access import Client
from broker_app.reflex.registration import Registration

#: services of one session
MOST = 10_000


class Registrations:
    """Registers services for one session, and ends them with it."""

    def __init__(self, registry: ServiceRegistry) -> None:
        self._registry = registry
        self._own: dict[str, Service] = {}

    async def register(
        self, operation: o.Register, client: Client, connection: str, *, admin: bool
    ) -> Registered:
        """The event `registered`. Raises Refused when a reflex refuses the service."""
        if len(self._own) >= MOST:
            raise Refused("too-many", f"a connection may register {MOST} services")
        registration = Registration(
            operation.service,
            client.identity.user,
            operation.machine or client.connection_info.address or "",
            operation.type,
            tuple(operation.events),
            connection,
            "websocket",
            token=client.identity.token or "",
        )
        origin = operation.origin.origin("/origin") if operation.origin is not None else None
        service = await self._registry.register(registration, origin=origin, admin=admin)
        self._own[service.id] = service
        return Registered(
            ref=operation.ref, id=service.id, service=operation.service, callbacks=service.has_callbacks
        )

    def deregister(self, id: str) -> None:
        """End a registration of this session. Raises Refused if there is none."""
        service = self._own.pop(id, None)
        if service is None:
            raise Refused("not-found", f"there is no service {id[:80]!r} of this connection")
        self._registry.deregister(service)

    async def end(self) -> None:
        """End all registrations, in turns; those that are left when this is cancelled, at once."""
        try:
            async for id in in_turns(list(self._own)):
                self._registry.deregister(self._own.pop(id))
        finally:
            for service in self._own.values():
                self._registry.deregister(service)
            self._own.clear()
