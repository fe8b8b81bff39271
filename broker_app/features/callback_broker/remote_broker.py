"""One remote broker, with its mirrors: the connections to it, one for each login."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from broker_app.features.callback_broker.origin_connection import OriginConnection
    from broker_app.features.callback_broker.pending_queue import PendingQueue
    from broker_app.features.services.origin import Origin


class RemoteBroker:
    """Knows which of its connections has the pending queue of a service: one of them, whatever the number of
    logins, so that each message that waits there is listed once."""

    def __init__(self) -> None:
        self.connections: list[OriginConnection] = []

    def has(self, origin: Origin) -> bool:
        """Return whether an origin is this broker: it has one of its addresses."""
        return any(url in connection.urls for connection in self.connections for url in origin.urls)

    def find(self, origin: Origin) -> OriginConnection | None:
        """The connection with the login of an origin."""
        login = origin.login, origin.passcode
        logins = ((one, (one.origin.login, one.origin.passcode)) for one in self.connections)
        return next((one for one, its_login in logins if its_login == login), None)

    def url_of(self, name: str) -> str:
        """The address at which a service is registered; empty if it is not."""
        return next((one.url for one in self.connections if one.has_service(name)), "")

    def queue(self, name: str) -> PendingQueue | None:
        """The pending queue of a service."""
        found = (one.queues.get(name) for one in self.connections)
        return next((queue for queue in found if queue is not None), None)

    def other(self, name: str, than: OriginConnection) -> OriginConnection | None:
        """Another connection that works, with a login of the same service."""
        others = (one for one in self.connections if one is not than and one.has_service(name))
        return next((one for one in others if one.is_connected), None)
