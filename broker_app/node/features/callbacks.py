"""Callbacks: webhooks that are called when messages arrive."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from broker_app.base.events import Event
from broker_app.features.callbacks.webhooks.supervisor import Supervisor
from broker_app.net.http.routing import Handlers
from broker_app.net.policy.owner_rights import OwnerRights
from broker_app.net.policy.policy import Policy
from broker_app.net.rest.features.callback_status import CallbackStatus, status
from broker_app.net.rest.features.callbacks import CallbackEndpoints
from broker_app.node.features.feature import Feature, NodeParts
from broker_app.peers.http_client.exchange import Poster
from broker_app.telemetry.component_health import Component, callback_components
from broker_app.telemetry.metrics.families import Collected
from broker_app.telemetry.metrics.node_metrics import of_callbacks


class CallbackFeature(Feature):
    """Runs the callbacks of the policy. `make_poster` makes what sends the requests, by default an HTTP
    client."""

    def __init__(self, parts: NodeParts, make_poster: Callable[[], Poster] | None) -> None:
        self._parts = parts
        self.supervisor = Supervisor(
            parts.engine, parts.config, OwnerRights(parts.access).refusal, make_poster
        )
        self.supervisor.listeners.add(self._note)
        self.rest_endpoints = CallbackEndpoints(self.supervisor, parts.rest.policy, parts.rest.limits)

    def statuses(self) -> Iterable[CallbackStatus]:
        """The status of all callbacks."""
        return map(status, self.supervisor.reports())

    def endpoints(self) -> Handlers:
        """`/callbacks`."""
        return self.rest_endpoints.handlers()

    def metrics(self) -> Collected:
        """The counts of all callbacks together."""
        return of_callbacks(self.supervisor.totals())

    def components(self) -> Iterable[Component]:
        """The health of each callback."""
        return callback_components(self.statuses())

    async def start(self) -> None:
        """Begin to push."""
        self.supervisor.start(self._parts.logins.policy.callbacks)

    def policy_changed(self, policy: Policy) -> None:
        """Begin new callbacks, and end those that are not configured any more."""
        self.supervisor.reload(policy.callbacks)

    async def finish(self) -> None:
        """Push nothing more."""
        await self.supervisor.stop()

    def engine_ended(self, error: BaseException) -> None:
        """End the callbacks."""
        self.supervisor.engine_ended(error)

    def _note(self, name: str, event: Event, fields: dict[str, Any]) -> None:
        """Log an event of a callback, or of the host that it calls."""
        self._parts.events.report(event, name, **fields)
