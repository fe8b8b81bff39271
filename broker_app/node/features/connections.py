"""Connections of clients, as operators see them."""

from __future__ import annotations

from broker_app.net.http.routing import Handlers
from broker_app.net.rest.connections.endpoints import ConnectionEndpoints
from broker_app.net.rest.connections.live_subscribers import LiveSubscriberEndpoint
from broker_app.node.features.feature import Feature, NodeParts


class ConnectionFeature(Feature):
    """Lists connections and live subscribers, and looks for slow ones."""

    def __init__(self, parts: NodeParts) -> None:
        self._parts = parts

    def endpoints(self) -> Handlers:
        """`/connections` and `/live-subscribers`."""
        parts, rest = self._parts, self._parts.rest
        return {
            **ConnectionEndpoints(rest.engine_client, parts.connections, rest.limits).handlers(),
            **LiveSubscriberEndpoint(parts.live, parts.engine, rest.limits).handlers(),
        }

    def each_second(self) -> None:
        """Look for connections that do not keep up."""
        self._parts.connections.check_slow()
