"""Programs that registered as services, and seed messages for those to come."""

from __future__ import annotations

from collections.abc import Mapping

from broker_app.features.services.seed_messages import SeedMessages
from broker_app.net.http.routing import Handlers
from broker_app.net.policy.owner_rights import SenderRights
from broker_app.net.rest.connections.services import ServiceEndpoints
from broker_app.net.rest.messages.profiles import ProfileEndpoints
from broker_app.node.features.feature import Feature, NodeParts, Task
from broker_app.reflex.reflexes import Reflexes


class ServiceFeature(Feature):
    """Ends registrations that were not renewed; `reflexes` filter the copies of seed messages."""

    def __init__(self, parts: NodeParts, reflexes: Reflexes) -> None:
        self._parts = parts
        self.registry = parts.services
        self.seeds = SeedMessages(
            parts.engine,
            parts.services,
            SenderRights(parts.access),
            parts.sessions.seed_shares,
            reflexes.filter,
        )

    def endpoints(self) -> Handlers:
        """`/services` and `/profiles`."""
        parts, rest = self._parts, self._parts.rest
        return {
            **ServiceEndpoints(self.registry, parts.engine, rest.limits).handlers(),
            **ProfileEndpoints(
                *(rest.engine_client, rest.publisher, rest.envelopes, rest.limits, self.seeds)
            ).handlers(),
        }

    def tasks(self) -> Mapping[str, Task]:
        """The leases of registrations, and the copies of seed messages."""
        return {"services": self.registry.run, "seed messages": self.seeds.run}

    def engine_ended(self, error: BaseException) -> None:
        """Answer those who wait."""
        self.seeds.engine_ended(error)
