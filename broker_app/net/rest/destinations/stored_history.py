"""The history of a destination beyond what the node has in memory: minutes that the pipeline has stored."""

from __future__ import annotations

import asyncio
import time
from typing import Final

from broker_app.base.times import rfc3339
from broker_app.net.http.replies import Reply, json_reply
from broker_app.net.http.requests import Request, whole_number
from broker_app.net.rest.destinations.stats import MAX_STEPS
from broker_app.rules.event import BROWSE
from broker_app.telemetry.pipeline_store import MINUTE_S, PipelineStore

DAY_S: Final = 86_400
LONGEST_S: Final = 90 * DAY_S


class StoredHistoryEndpoint:
    """Endpoints `…/history`. `name` is that of the broker."""

    def __init__(self, store: PipelineStore, name: str) -> None:
        self._store = store
        self._name = name

    async def of_queue(self, request: Request) -> Reply:
        """GET queues/{name}/history"""
        return await self._history(request, "queue")

    async def of_topic(self, request: Request) -> Reply:
        """GET topics/{name}/history"""
        return await self._history(request, "topic")

    async def _history(self, request: Request, kind: str) -> Reply:
        query = request.query((kind, "window_s", "step_s"))
        window_s = whole_number(query, "window_s", DAY_S, MINUTE_S, LONGEST_S)
        step_s = _whole_minutes(whole_number(query, "step_s", MINUTE_S, 1, DAY_S))
        step_s = max(step_s, _whole_minutes(-(-window_s // MAX_STEPS)))
        destination = request.permitted(BROWSE, f"/{kind}/{request.name}")
        end = int(time.time()) // step_s + 1
        steps = -(-window_s // step_s)
        t0 = (end - steps) * step_s
        found = await asyncio.to_thread(
            self._store.history, self._name, destination.address, t0, step_s, steps
        )
        return json_reply(
            {
                "name": destination.name,
                "t0": found.t0,
                "step_s": found.step_s,
                "series": found.series,
                "stored_from": _rfc3339(found.first_s),
                "stored_to": _rfc3339(found.end_s),
            }
        )


def _whole_minutes(seconds: int) -> int:
    return -(-seconds // MINUTE_S) * MINUTE_S


def _rfc3339(seconds: int | None) -> str | None:
    return None if seconds is None else rfc3339(seconds)
