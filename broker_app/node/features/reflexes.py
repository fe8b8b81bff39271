"""Reflexes: functions of plug-ins that decide about messages and registrations."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from broker_app.config import MAX_HEADER_BYTES, MAX_HEADERS, MIB
from broker_app.features.mirror.mirror import Mirror
from broker_app.net.http.routing import Handlers
from broker_app.net.policy.policy import Policy
from broker_app.net.rest.features.reflex_trials import ReflexTrials
from broker_app.net.rest.features.reflexes import ReflexEndpoints
from broker_app.net.stomp.changed_headers import ChangedHeaders
from broker_app.net.stomp.login.service_registrar import ServiceRegistrar
from broker_app.node.features.feature import Feature, NodeParts
from broker_app.reflex.declaration import Declaration
from broker_app.reflex.reflexes import Reflexes, Settings
from broker_app.reflex.shipped.context import Context
from broker_app.telemetry.component_health import Component, reflex_components

#: memory of the process of one library
_PROCESS_BYTES: Final = 512 * MIB


class ReflexFeature(Feature):
    """The reflexes of the node, with the `declarations` of its file."""

    def __init__(self, parts: NodeParts, declarations: Sequence[Declaration], mirror: Mirror | None) -> None:
        self._parts = parts
        self._mirror = mirror
        config, engine = parts.config, parts.engine
        directory = str(config.reflex_path.resolve()) if config.reflex_path is not None else ""
        self.reflexes = Reflexes(
            engine,
            Context(config.name, config.data, parts.events, self._main_active),
            ChangedHeaders(MAX_HEADERS, MAX_HEADER_BYTES),
            Settings(directory, _PROCESS_BYTES, config.reflex_bytes),
            declarations,
        )
        self.trials = ReflexTrials(self.reflexes, parts.rest, engine.records)
        engine.listeners.add(self.reflexes.on_events)
        # They decide which sessions and services may register.
        parts.services.admit = self.reflexes.register
        parts.services.dismissed = self.reflexes.deregistered
        parts.sessions.registrar = ServiceRegistrar(self.reflexes, parts.services, parts.sessions)

    def endpoints(self) -> Handlers:
        """`/reflexes`."""
        return {**ReflexEndpoints(self.reflexes).handlers(), **self.trials.handlers()}

    def components(self) -> Iterable[Component]:
        """The health of each reflex."""
        return reflex_components(self.reflexes.report())

    async def start(self) -> None:
        """Load the functions."""
        self.reflexes.reload(self._parts.logins.policy.reflexes)

    def policy_changed(self, policy: Policy) -> None:
        """Use other settings of reflexes."""
        self.reflexes.reload(policy.reflexes)

    def recheck(self) -> None:
        """Filter subscriptions that were requested before."""
        self.reflexes.recheck()

    async def finish(self) -> None:
        """Finish the calls that have begun, and end the libraries' processes."""
        await self.reflexes.finish(self._parts.config.drain)
        await self.reflexes.stop()

    def _main_active(self) -> str | None:
        """The addresses of another broker that holds the lease of the journal; None if there is none."""
        other = self._mirror.other_active if self._mirror is not None else None
        return other.active_uris if other is not None else None
