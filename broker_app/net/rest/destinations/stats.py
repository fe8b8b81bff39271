"""Statistics over HTTP: of the node and its past, and the past of one destination."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial

from broker_app.base.refused import Refused
from broker_app.core.broker import Broker
from broker_app.core.destination import QUEUE, TOPIC, of_name
from broker_app.net.http.long_poll import WaitingRequests
from broker_app.net.http.refusals import invalid
from broker_app.net.http.replies import Reply, compressed, encode, json_reply
from broker_app.net.http.requests import Request, whole_number
from broker_app.net.http.streams import MEDIA_TYPE, stream
from broker_app.net.rest.features.bridge_status import (
    BridgeStatus,
)
from broker_app.net.rest.features.rights import destination_of
from broker_app.rules.event import BROWSE
from broker_app.telemetry import Statistics
from broker_app.telemetry.figures import LatestStatistics
from broker_app.telemetry.timeseries import History

#: steps of one reply
MAX_STEPS = 1_440
#: destinations that one stream may name
MAX_STREAMED = 50


class StatsEndpoints:
    """Endpoints `stats` and `…/stats`. `bridges` is how those stand that a client may see."""

    def __init__(
        self,
        broker: Broker,
        statistics: Statistics,
        waiting: WaitingRequests,
        bridges: Callable[[Request], Sequence[BridgeStatus]],
    ) -> None:
        self._broker = broker
        self._statistics = statistics
        self._waiting = waiting
        self._bridges = bridges
        #: of the last pass, as it is written to every stream that asks for no destination
        self._whole: tuple[object, bytes] = (None, b"")

    async def node(self, request: Request) -> Reply:
        """GET stats"""
        request.query()
        return json_reply({**self._seen_by(request), "bridges": self._bridges(request)})

    async def past_of_node(self, request: Request) -> Reply:
        """GET node/stats"""
        window_s, step_s = _window(request.query(("window_s", "step_s")))
        window = self._statistics.window_of_node(window_s, step_s)
        reply = json_reply({**self._statistics.head(), **window._asdict()})
        return compressed(reply, request.header(b"accept-encoding"))

    async def stream(self, request: Request) -> Reply | None:
        """GET stats/stream: an event a second"""
        query = request.query(("destinations",))
        addresses = _addresses(query["destinations"]) if "destinations" in query else None
        if request.method == "HEAD":
            return Reply(200, MEDIA_TYPE)
        for address in addresses or ():
            request.permitted(BROWSE, address)
        wait = self._waiting.enter(request.client)
        self._statistics.listeners.add(wait.woken.set)
        try:
            await stream(request, wait, partial(self._event, request, addresses))
        finally:
            self._statistics.listeners.discard(wait.woken.set)
            self._waiting.leave(wait)
        return None

    async def of_queue(self, request: Request) -> Reply:
        """GET queues/{name}/stats"""
        return self._past(request, "queue")

    async def of_topic(self, request: Request) -> Reply:
        """GET topics/{name}/stats"""
        return self._past(request, "topic")

    async def _event(self, request: Request, addresses: list[str] | None) -> AsyncIterator[bytes]:
        statistics = self._statistics
        if addresses is not None:
            there = [
                statistics.brief(address)
                for address in addresses
                if statistics.exists(address) and self._may_see(request, address)
            ]
            yield _sse({**statistics.head(), "destinations": there})
        elif not request.access.sees_everything(request.client.identity):
            yield _sse(self._seen_by(request))
        else:
            latest = statistics.latest()
            if self._whole[0] is not latest:
                self._whole = latest, _sse(latest)
            yield self._whole[1]

    def _seen_by(self, request: Request) -> LatestStatistics:
        """The latest figures, of the destinations that the client may browse."""
        latest = self._statistics.latest()
        view = request.access.view(request.client)
        if view is not None:
            rows = [row for row in latest["destinations"] if row["name"] in view]
        else:
            rows = [row for row in latest["destinations"] if self._may_see(request, row["name"])]
        return {**latest, "destinations": rows}

    def _may_see(self, request: Request, address: str) -> bool:
        """True if a list may contain a destination. Temporary ones are private."""
        destination = destination_of(self._broker, address)
        if destination is None or destination.kind not in (QUEUE, TOPIC):
            return False
        return request.access.allows(request.client, BROWSE, destination)

    def _past(self, request: Request, kind: str) -> Reply:
        window_s, step_s = _window(request.query((kind, "window_s", "step_s")))
        destination = request.permitted(BROWSE, f"/{kind}/{request.name}")
        if not self._statistics.knows(destination.address):
            raise Refused("not-found", f"there is no {kind} {destination.name}")
        window = self._statistics.window(destination.address, window_s, step_s)
        there = self._statistics.exists(destination.address)
        found = {
            "name": destination.name,
            "now": self._statistics.full(destination.address) if there else None,
            **window._asdict(),
        }
        return compressed(json_reply(found), request.header(b"accept-encoding"))


def _window(query: dict[str, str]) -> tuple[int, int]:
    """The length of the history, and its step; at most `MAX_STEPS` steps."""
    window_s = whole_number(query, "window_s", 600, 1, History.LONGEST_S)
    least = -(-window_s // MAX_STEPS)
    return window_s, max(least, whole_number(query, "step_s", least, 1, 3_600))


def _addresses(text: str) -> list[str]:
    """The destinations of a query, by comma; a bare name is a queue's."""
    names = [name for name in text.split(",") if name]
    if not 0 < len(names) <= MAX_STREAMED:
        raise invalid("query/destinations", f"must be 1 to {MAX_STREAMED} names, with commas between them")
    return [of_name(name).address for name in names]


def _sse(value: object) -> bytes:
    return b"event: stats\ndata: %b\n\n" % encode(value)
