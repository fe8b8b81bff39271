"""Bridges: queues that are forwarded to other brokers."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from broker_app.features.bridge.connection_test import try_connection
from broker_app.features.bridge.supervisor import Supervisor
from broker_app.features.bridge.timeline import TimelineEvent
from broker_app.net.http.routing import Handlers
from broker_app.net.policy.policy import Policy
from broker_app.net.rest.features.bridge_queues import BridgeQueues
from broker_app.net.rest.features.bridge_status import (
    BridgeStatus,
    status,
)
from broker_app.net.rest.features.bridges import BridgeEndpoints
from broker_app.node.features.feature import Feature, NodeParts
from broker_app.telemetry.component_health import Component, bridge_components
from broker_app.telemetry.metrics.families import Collected
from broker_app.telemetry.metrics.node_metrics import of_bridges


class BridgeFeature(Feature):
    """Runs the bridges of the policy."""

    def __init__(self, parts: NodeParts) -> None:
        self._parts = parts
        config, rest = parts.config, parts.rest
        # A broker with a new journal is another sender: it numbers its messages from the beginning.
        self.supervisor = Supervisor(parts.engine, f"{config.name}~{parts.journal.tag:x}")
        self.supervisor.listeners.add(self._note)
        parts.engine.listeners.add(self.supervisor.on_events)
        self.rest_endpoints = BridgeEndpoints(
            rest.engine_client,
            parts.statistics,
            self.supervisor,
            partial(try_connection, sender=config.name),
            rest.policy,
            rest.limits,
        )

    def statuses(self) -> list[BridgeStatus]:
        """The status of all bridges, with sums and rates."""
        return [status(self._parts.statistics, report) for report in self.supervisor.reports()]

    def endpoints(self) -> Handlers:
        """`/forwarding`, `/bridges` and the queues of bridges."""
        rest = self._parts.rest
        queues = BridgeQueues(rest.engine_client, rest.policy, rest.publisher, rest.browser, rest.queues)
        return {
            **self.rest_endpoints.handlers(),
            "get_bridge_queue": queues.one,
            "make_bridge_queue": queues.make,
            "publish_to_bridge_queue": queues.publish,
            "browse_bridge_queue": queues.browse,
        }

    def metrics(self) -> Collected:
        """States, backlogs and counts of each bridge."""
        return of_bridges(self.statuses())

    def components(self) -> Iterable[Component]:
        """The health of each bridge."""
        return bridge_components(self.statuses())

    async def start(self) -> None:
        """Connect."""
        self.supervisor.start(self._parts.logins.policy.bridges)

    def policy_changed(self, policy: Policy) -> None:
        """Begin new bridges, and end those that are not configured any more."""
        self.supervisor.reload(policy.bridges)

    async def finish(self) -> None:
        """Disconnect."""
        await self.supervisor.stop()

    def _note(self, name: str, event: TimelineEvent) -> None:
        self._parts.events.report(event.event, name, code=event.code, detail=event.detail, queue=event.queue)
