"""Statistics over HTTP: of the node, and the past of one destination."""

from __future__ import annotations

from broker_app.core.destination import parse
from broker_app.net import access
from broker_app.net.rest.refusals import Refusal
from broker_app.net.rest.replies import Reply, json_reply
from broker_app.net.rest.requests import Request, whole_number
from broker_app.telemetry import Statistics
from broker_app.telemetry.rings import History

#: steps of one reply
MAX_STEPS = 1_440


class Figures:
    """Endpoints `stats` and `…/stats`."""

    def __init__(self, statistics: Statistics) -> None:
        self._statistics = statistics

    async def node(self, request: Request) -> Reply:
        """GET stats"""
        request.query()
        return json_reply(self._statistics.latest())

    async def of_queue(self, request: Request) -> Reply:
        """GET queues/{name}/stats"""
        return self._past(request, "queue")

    async def of_topic(self, request: Request) -> Reply:
        """GET topics/{name}/stats"""
        return self._past(request, "topic")

    def _past(self, request: Request, kind: str) -> Reply:
        query = request.query((kind, "window_s", "step_s"))
        window_s = whole_number(query, "window_s", 600, 1, History.LONGEST_S)
        least = -(-window_s // MAX_STEPS)
        step_s = whole_number(query, "step_s", least, 1, 3_600)
        destination = parse(f"/{kind}/{request.name}")
        access.check(request.identity, access.RECEIVE, destination)
        if not self._statistics.knows(destination.address):
            raise Refusal("not-found", f"there is no {kind} {destination.name}")
        window = self._statistics.window(destination.address, window_s, max(step_s, least))
        there = self._statistics.is_there(destination.address)
        return json_reply(
            {
                "name": destination.name,
                "now": self._statistics.full(destination.address) if there else None,
                **window._asdict(),
            }
        )
