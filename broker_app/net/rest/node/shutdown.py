"""Shutting the broker down, by an administrator."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from broker_app.base.refused import Refused
from broker_app.net import operator_audit
from broker_app.net.http.refusals import invalid
from broker_app.net.http.replies import Reply, json_reply
from broker_app.net.http.requests import Request
from broker_app.net.rest.node.mirrors import MAX_REASON


class ShutdownRequest(msgspec.Struct, forbid_unknown_fields=True):
    """The body of a shutdown. `name` is the name of the broker, so that no other one is shut down."""

    name: str
    reason: str = ""


class ShutdownEndpoint:
    """Endpoint `shutdown` of the broker `name`. `shut_down` begins it, as SIGTERM does."""

    def __init__(self, name: str, shut_down: Callable[[], None]) -> None:
        self._name = name
        self._shut_down = shut_down

    async def shut_down(self, request: Request) -> Reply:
        """POST shutdown: clients are notified, and what was accepted is finished."""
        request.query()
        if not request.access.is_admin(request.client.identity):
            raise Refused("not-allowed", "only administrators shut a broker down", right="administer")
        body = await request.json(ShutdownRequest)
        if body.name != self._name:
            raise invalid("/name", f"this is broker {self._name}", body.name)
        if len(body.reason) > MAX_REASON or not (body.reason.isprintable() or not body.reason):
            raise invalid("/reason", f"must be a line of at most {MAX_REASON} printable characters")
        request.audit(operator_audit.SHUT_DOWN, "brokers", self._name, reason=body.reason)
        self._shut_down()
        return json_reply({"name": self._name}, 202)
