"""Facts of the node: queues, limits, health, and the description of the interface."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from broker_app.core.queue import Queue
from broker_app.net.rest.desk import Desk
from broker_app.net.rest.limits import RestLimits
from broker_app.net.rest.refusals import Refusal, invalid
from broker_app.net.rest.replies import JSON, Reply, encode, json_reply
from broker_app.net.rest.requests import Request, whole_number
from broker_app.net.rest.waiting import Waiting

_PREFIX = "/queue/"


class NodeFacts:
    """Endpoints without a destination."""

    def __init__(
        self,
        desk: Desk,
        waiting: Waiting,
        limits: RestLimits,
        document: Mapping[str, Any],
    ) -> None:
        self._desk = desk
        self._waiting = waiting
        self._limits = asdict(limits)
        self._max_page = limits.max_page
        self._document = encode(document)

    async def queues(self, request: Request) -> Reply:
        """GET queues: by name. Temporary queues are their owners' affair."""
        query = request.query(("limit", "after"))
        limit = whole_number(query, "limit", 100, 1, self._max_page)
        after = _name(query["after"]) if "after" in query else ""
        queues = self._desk.engine.broker.queues
        names = sorted(address for address in queues if address.startswith(_PREFIX))
        wanted = [name for name in names if name > _PREFIX + after][: limit + 1]
        page = wanted[:limit]
        following = _cursor(page[-1].removeprefix(_PREFIX)) if len(wanted) > limit else None
        rows = [_facts(queues[address]) for address in page]
        return json_reply({"items": rows, "next": following, "approx_total": len(names)})

    async def limits(self, request: Request) -> Reply:
        """GET limits"""
        request.query()
        return json_reply(self._limits)

    async def openapi(self, request: Request) -> Reply:
        """GET openapi.json"""
        request.query()
        return Reply(200, JSON, self._document)

    async def live(self, request: Request) -> Reply:
        """GET health/live: the process answers."""
        request.query()
        return json_reply({"status": "live"})

    async def ready(self, request: Request) -> Reply:
        """GET health/ready: the node takes and hands out messages."""
        request.query()
        self._desk.check_alive()
        if self._waiting.stopped:
            raise Refusal("not-active", "the node is stopping")
        return json_reply({"status": "ready"})


def _facts(queue: Queue) -> dict[str, Any]:
    return {
        "name": queue.address.removeprefix(_PREFIX),
        "depth": queue.depth,
        "unsettled": queue.unsettled,
        "consumers": len(queue.consumers),
        "published": queue.published_total,
        "delivered": queue.delivered_total,
        "acknowledged": queue.acked_total,
        "expired": queue.expired_total,
        "dead": queue.dead_total,
    }


def _cursor(name: str) -> str:
    return base64.urlsafe_b64encode(name.encode()).decode().rstrip("=")


def _name(cursor: str) -> str:
    try:
        return base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True).decode()
    except (ValueError, binascii.Error):
        raise invalid("query/after", "is no cursor of an earlier page", cursor) from None
