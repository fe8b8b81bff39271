"""The origins of a callback broker over HTTP: remote brokers whose messages it fetches for its services."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from broker_app.base.refused import Refused
from broker_app.net.http.replies import Reply, json_reply
from broker_app.net.http.requests import Request
from broker_app.net.http.routing import Handlers

#: returns the status of all origins
ReadOrigins = Callable[[], list[dict[str, object]]]
_SUMS: Final = ("pending", "held", "fetched", "gone", "polls")


class OriginEndpoint:
    """Endpoint `origins`. `origins` is None where the broker is no callback broker; `polls` returns the
    number of receive requests for a queue here, each of which spared an origin one."""

    def __init__(self, origins: ReadOrigins | None, polls: Callable[[str], int]) -> None:
        self._origins = origins
        self._polls = polls

    def handlers(self) -> Handlers:
        """The endpoints by operation."""
        return {
            "list_origins": self.all,
        }

    async def all(self, request: Request) -> Reply:
        """GET origins: for administrators."""
        request.query()
        if not request.is_admin:
            raise Refused("not-allowed", "only administrators see origins", right="administer")
        items = [] if self._origins is None else [self._row(origin) for origin in self._origins()]
        return json_reply({"callback_broker": self._origins is not None, "items": items})

    def _row(self, origin: Mapping[str, Any]) -> dict[str, object]:
        queues = [
            {**queue, "polls": self._polls(f"/queue/{queue['name']}")}
            for queue in sorted(origin["queues"], key=lambda queue: queue["name"])
        ]
        sums = {name: sum(queue[name] for queue in queues) for name in _SUMS}
        return {**origin, **sums, "queues": queues}
