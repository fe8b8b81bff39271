"""Statistics in the format of WebSphere sMash, for programs that read it.

`GET /opsmanager/application/_self?q=stats`. The numbers are those of `/api/v1/stats`; sizes in bytes, times
in milliseconds since 1970, `uptime` in milliseconds. A limit of 0 means no limit.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from datetime import datetime
from itertools import islice
from typing import Final

from broker_app.base.reply_types import Facts
from broker_app.config import Config
from broker_app.core.broker import Broker
from broker_app.core.destination import QUEUE, parse
from broker_app.core.model import Queue
from broker_app.features.bridge.pipe_reports import (
    FlowReport,
    Forwarding,
)
from broker_app.net.http.refusals import invalid
from broker_app.net.http.replies import Reply, json_reply
from broker_app.net.http.requests import Request
from broker_app.net.http.routing import Router
from broker_app.net.stomp.connections import Connections
from broker_app.net.stomp.session import VERSION, StompSession
from broker_app.rules.event import BROWSE
from broker_app.telemetry import Statistics

PREFIX: Final = "/opsmanager/"
_PATHS: Final = {f"{PREFIX}application/_self": {"get": {"operationId": "monitor"}}}
#: clients and queues of one reply
MAX_ITEMS: Final = 10_000
#: a queue exists until it is deleted, so it has no time left
PERMANENT, NEVER = "permanent", -1


class MonitoredStats:
    """The endpoint. `started` is when the node did, seconds since 1970."""

    def __init__(
        self,
        broker: Broker,
        config: Config,
        statistics: Statistics,
        connections: Connections,
        forwarding: Forwarding,
        sizes: Callable[[], Mapping[str, int]],
        started: float,
    ) -> None:
        self._broker = broker
        self._config = config
        self._statistics = statistics
        self._connections = connections
        self._forwarding = forwarding
        self._sizes = sizes
        self._started = started

    def router(self) -> Router:
        """The router of its one address, which is outside of the API."""
        return Router(_PATHS, {"monitor": self.stats}, prefix=PREFIX)

    async def stats(self, request: Request) -> Reply:
        """GET opsmanager/application/_self?q=stats"""
        query = request.query(("q",))
        if query.get("q") != "stats":
            raise invalid("query/q", "must be stats, the only value here", query.get("q"))
        addresses = [address for address in self._broker.destinations.queues if address.startswith("/queue/")]
        seen = await request.access.visible(request.client, addresses)
        queues = [
            self._broker.destinations.queues[at]
            for at in addresses
            if at in seen and at in self._broker.destinations.queues
        ]
        broker_stats = {
            "name": self._config.name,
            "listeners": self._listeners(request),
            "stats": self._traffic(),
            "persistence": self._persistence(),
            "queues": {_name(queue): self._queue(queue) for queue in queues[:MAX_ITEMS]},
            "pipes": self._pipes(request),
        }
        return json_reply({"monitoredStats": {"brokerStats": broker_stats}})

    def _listeners(self, request: Request) -> dict[str, dict[str, dict[str, object]]]:
        """Connections by the way they came; without a right to see all, one's own."""
        sees_all = request.access.is_unruled(request.client.identity)
        found: dict[str, dict[str, dict[str, object]]] = {}
        identity = request.client.identity
        seen = (one for one in self._connections.sessions() if sees_all or one.identity == identity)
        for session in islice(seen, MAX_ITEMS):
            facts = self._connections.facts(session)
            clients = found.setdefault(facts["transport"], {"clients": {}})["clients"]
            clients[facts["id"]] = self._client(session, facts)
        return found

    def _client(self, session: StompSession, facts: Facts) -> dict[str, object]:
        protocol, _, version = facts["protocol"].partition(" ")
        subscriptions = session.peer.subscriptions.values()
        waiting = {subscription.queue.address: subscription.queue.depth for subscription in subscriptions}
        return {
            "protocol": protocol,
            "protocolVersion": version,
            "numberOfInFlightMessages": facts["unsettled"],
            "numberOfQueuedMessages": sum(waiting.values()),
            "numberOfSubscriptions": facts["subscriptions"],
            "connectionTime": round(datetime.fromisoformat(facts["since"]).timestamp() * 1000),
            "lastActivityTime": round((time.time() - facts["idle_s"]) * 1000),
        }

    def _traffic(self) -> dict[str, object]:
        came, went = self._connections.bytes_total
        counters = self._broker.turn.counters
        return {
            "bytesSent": went,
            "bytesReceived": came,
            "messagesSent": counters["delivered"],
            "messagesReceived": counters["published"],
            "uptime": round((time.time() - self._started) * 1000),
            "version": VERSION,
        }

    def _persistence(self) -> dict[str, object]:
        sizes = self._sizes()
        return {
            "currentObjectStoreSize": sizes.get("bytes_stored", 0),
            "persistenceType": "journal",
            "logSize": sizes.get("bytes_on_disk", 0),
            "maxLogSize": self._config.max_store_bytes,
            "minObjectStoreSize": 0,
            "maxObjectStoreSize": self._config.max_store_bytes,
        }

    def _queue(self, queue: Queue) -> dict[str, object]:
        return {
            "consumerCount": len(queue.consumers),
            "expiryTimeRemaining": NEVER,
            "lifecycle": PERMANENT,
            "currentDepth": queue.depth + queue.unsettled,
            "maxMessageSize": queue.policy.max_message_bytes or self._config.max_body_bytes,
            "maxQueueDepth": queue.policy.max_messages,
        }

    def _pipes(self, request: Request) -> dict[str, object]:
        """Bridges, as sMash called them: a pipe to each remote broker, and its flows to remote queues."""
        found: dict[str, object] = {}
        all_of_them = request.access.sees_everything(request.client.identity)
        for report in self._forwarding.reports():
            flows = [
                flow
                for flow in report["flows"]
                if request.access.allows(request.client, BROWSE, parse(flow["source"]))
            ]
            if flows or all_of_them:
                found[report["name"]] = {
                    "state": report["state"],
                    "lastError": report["error"],
                    "lastProgressTime": max((flow["progress_ms"] or 0 for flow in flows), default=0) or None,
                    "flows": {flow["queue"]: _flow(flow) for flow in flows},
                }
        return found


def _flow(flow: FlowReport) -> dict[str, object]:
    return {
        "queue": flow["source"].removeprefix(f"/{QUEUE}/"),
        "state": flow["state"],
        "lastError": flow["error"],
        "lastProgressTime": flow["progress_ms"],
        "currentDepth": flow["depth"],
        "messagesSent": flow["sent"],
        "messagesAccepted": flow["accepted"],
    }


def _name(queue: Queue) -> str:
    return queue.address.removeprefix(f"/{QUEUE}/")
