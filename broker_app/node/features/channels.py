"""Message channels between sites."""

from __future__ import annotations

import msgspec

from broker_app.features.channels.functions import FunctionHandlers
from broker_app.net.http.routing import Handlers
from broker_app.net.rest.features.sites import SiteEndpoints
from broker_app.node.features.feature import Feature, NodeParts
from broker_app.reflex.reflexes import Reflexes
from broker_app.telemetry.metrics.families import Collected
from broker_app.telemetry.metrics.node_metrics import of_sites


class ChannelFeature(Feature):
    """The channels of the sessions' clients; without a cluster, this broker is their only site. Functions of
    `reflexes` may be handlers."""

    def __init__(self, parts: NodeParts, reflexes: Reflexes) -> None:
        self._rest = parts.rest
        self.channels = parts.sessions.channels
        functions = FunctionHandlers(self.channels, parts.config.max_body_bytes)
        reflexes.use_handlers = functions.use

    def endpoints(self) -> Handlers:
        """`/sites`."""
        return SiteEndpoints(self.channels, self._rest.limits).handlers()

    def metrics(self) -> Collected:
        """The sites of message channels."""
        return of_sites([msgspec.to_builtins(site) for site in self.channels.report().sites])

    async def stop(self) -> None:
        """End the requests between sites."""
        self.channels.stop()
