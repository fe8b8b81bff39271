"""Facts of the node: limits, health, and the descriptions of its interfaces."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import cache
from typing import Any, Final

from broker_app.base.refused import Refused
from broker_app.core.publishing.resource_alarm import STORE_FULL
from broker_app.engine.client import EngineClient
from broker_app.net.broker_state import BrokerState
from broker_app.net.http.limits import RestLimits
from broker_app.net.http.long_poll import WaitingRequests
from broker_app.net.http.replies import JSON, Reply, encode, json_reply
from broker_app.net.http.requests import Request
from broker_app.net.http.routing import Handlers

#: why a node that is ready is degraded
NEARLY_FULL: Final = "nearly-full"


class NodeEndpoints:
    """Endpoints without a destination; `nearly_full` is true while the space for the journal nearly is."""

    def __init__(
        self,
        engine_client: EngineClient,
        waiting: WaitingRequests,
        limits: RestLimits,
        document: Callable[[], Mapping[str, Any]],
        event_document: Callable[[], Mapping[str, Any]],
        nearly_full: Callable[[], object],
        state: BrokerState,
    ) -> None:
        self._state = state
        self._engine_client = engine_client
        self._waiting = waiting
        self._limits = limits
        self._nearly_full = nearly_full
        # Made when they are asked for first: that takes as long as a fifth of a takeover.
        self._document = cache(lambda: encode(document()))
        self._event_document = cache(lambda: encode(event_document()))

    def handlers(self) -> Handlers:
        """The endpoints by operation."""
        return {
            "get_limits": self.limits,
            "get_openapi": self.openapi,
            "get_asyncapi": self.asyncapi,
            "health_live": self.live,
            "health_ready": self.ready,
        }

    async def limits(self, request: Request) -> Reply:
        """GET limits"""
        request.query()
        return json_reply(asdict(self._limits))

    async def openapi(self, request: Request) -> Reply:
        """GET openapi.json"""
        request.query()
        return Reply(200, JSON, self._document())

    async def asyncapi(self, request: Request) -> Reply:
        """GET asyncapi.json"""
        request.query()
        return Reply(200, JSON, self._event_document())

    async def live(self, request: Request) -> Reply:
        """GET health/live: the process answers."""
        request.query()
        return json_reply({"status": "live"})

    async def ready(self, request: Request) -> Reply:
        """GET health/ready: the node takes and hands out messages; one whose store is full, or that is
        quiesced or paused, does not, and one whose store is nearly full says so."""
        request.query()
        self._engine_client.check_alive()
        if self._waiting.stopped:
            raise Refused("not-active", "the node is stopping")
        self._state.check_ready()
        if self._engine_client.engine.broker.resource_alarms.alarm is STORE_FULL:
            raise STORE_FULL.refusal
        degraded = {"degraded": NEARLY_FULL} if self._nearly_full() else {}
        return json_reply({"status": "ready", **degraded})
