"""The reflexes of a node: made of its settings, and asked about the registrations of its clients."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from broker_app.config import Config
from broker_app.engine import Engine
from broker_app.features.mirror.mirror import Mirror
from broker_app.features.services.registry import ServiceRegistry
from broker_app.net.stomp.changed_headers import ChangedHeaders
from broker_app.net.stomp.service_registrar import ServiceRegistrar
from broker_app.net.stomp.session_registry import SessionRegistry
from broker_app.reflex.declaration import Declaration
from broker_app.reflex.reflexes import Reflexes, Settings
from broker_app.reflex.shipped.context import Context
from broker_app.telemetry.event_log import EventLog


def make_reflexes(
    config: Config,
    engine: Engine,
    events: EventLog,
    mirror: Mirror | None,
    declarations: Sequence[Declaration],
) -> Reflexes:
    """The reflexes of a node, with the declarations of its file."""
    directory = str(config.reflex_path.resolve()) if config.reflex_path is not None else ""
    return Reflexes(
        engine,
        Context(config.name, config.data, events, _main_active(mirror)),
        ChangedHeaders(config.max_headers, config.max_header_bytes),
        Settings(directory, config.reflex_memory, config.reflex_bytes),
        declarations,
    )


def admit_services(reflexes: Reflexes, sessions: SessionRegistry, services: ServiceRegistry) -> None:
    """Have reflexes decide which sessions and services may register."""
    services.admit = reflexes.register
    services.dismissed = reflexes.deregistered
    sessions.registrar = ServiceRegistrar(reflexes, services, sessions)


def _main_active(mirror: Mirror | None) -> Callable[[], str | None]:
    """A function that returns the addresses of another broker that holds the lease of the journal; None if
    there is none."""

    def main_active() -> str | None:
        other = mirror.other_active if mirror is not None else None
        return other.active_uris if other is not None else None

    return main_active
