"""A callback broker: connections to the brokers that its clients' services are registered at."""

from __future__ import annotations

from broker_app.base.settings.roles import CALLBACK
from broker_app.features.callback_broker.callback_broker import CallbackBroker
from broker_app.net.http.routing import Handlers
from broker_app.net.rest.features.origins import OriginEndpoint
from broker_app.node.features.feature import Feature, NodeParts


class CallbackBrokerFeature(Feature):
    """Registers services at their origin, if the role of this broker is that of a callback broker."""

    def __init__(self, parts: NodeParts) -> None:
        self._parts = parts
        self._broker: CallbackBroker | None = None
        if parts.config.role == CALLBACK:
            self._broker = CallbackBroker(parts.engine, parts.config.max_websocket_bytes)
            parts.services.register_at_origin = self._broker.register

    def endpoints(self) -> Handlers:
        """`/origins`."""
        read = self._broker.status if self._broker is not None else None
        return OriginEndpoint(read, self._parts.rest.polls.of).handlers()

    async def finish(self) -> None:
        """Finish what was taken from the origins."""
        if self._broker is not None:
            await self._broker.finish(self._parts.config.drain)

    async def stop(self) -> None:
        """End the connections to the origins."""
        if self._broker is not None:
            await self._broker.stop()
