"""Registers connections of STOMP: those that name a service in the registry of services, others with the
reflexes alone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from broker_app.base.internal_errors import internal_errors
from broker_app.base.refused import Refused
from broker_app.features.services.origin import Origin
from broker_app.features.services.registry import DEREGISTERED, Service, ServiceRegistry
from broker_app.net.stomp.login.registrations import Outcome
from broker_app.net.stomp.session_registry import SessionRegistry
from broker_app.reflex.reflexes import Reflexes
from broker_app.reflex.registration import Registration, RegistrationVerdict


class ServiceRegistrar:
    """The `net.stomp.login.registrations.Registrar` of a node."""

    def __init__(self, reflexes: Reflexes, services: ServiceRegistry, sessions: SessionRegistry) -> None:
        self._reflexes = reflexes
        self._services = services
        self._sessions = sessions
        #: services by the id of their connection
        self._registered: dict[str, Service] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        services.listeners.add(self._on_service)

    def begin_registration(
        self, registration: Registration, done: Callable[[RegistrationVerdict], None]
    ) -> RegistrationVerdict | None:
        """Return the verdict of reflexes about a connection, or None if `done` gets it later."""
        return self._reflexes.begin_registration(registration, done)

    def begin_service(
        self,
        registration: Registration,
        origin: Origin | None,
        done: Callable[[Outcome], None],
        *,
        admin: bool,
    ) -> None:
        """Register a connection as a service; `done` gets the outcome."""
        task = asyncio.create_task(self._register(registration, origin, done, admin=admin))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _register(
        self,
        registration: Registration,
        origin: Origin | None,
        done: Callable[[Outcome], None],
        *,
        admin: bool,
    ) -> None:
        outcome: Outcome
        try:
            service = await self._services.register(registration, origin=origin, admin=admin)
        except Refused as refused:
            outcome = refused
        except Exception as error:  # of this client, and of no other
            internal_errors.note("registering a service", error, registration.name)
            outcome = Refused("internal", "the broker failed; its log has the details")
        else:
            self._registered[registration.connection] = service
            outcome = RegistrationVerdict(True, service.registration)
        done(outcome)

    def service_of(self, connection: str) -> str | None:
        """The name of the service that a connection is registered as; None if it is none."""
        service = self._registered.get(connection)
        # An administrator may have deregistered it; the connection stays.
        if service is None or self._services.find(service.id) is None:
            return None
        return service.registration.name

    def deregistered(self, registration: Registration) -> None:
        """The registration of a connection has ended."""
        service = self._registered.pop(registration.connection, None)
        if service is not None:
            self._services.deregister(service)
        else:
            self._reflexes.deregistered(registration)

    def _on_service(self, event: str, service: Service) -> None:
        """Close the connection of a service that its origin has refused: its client connects elsewhere."""
        connection = service.registration.connection
        if event == DEREGISTERED and service.lost is not None and connection in self._registered:
            del self._registered[connection]
            self._sessions.close_connection(connection, service.lost)
