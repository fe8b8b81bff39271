"""The event log over HTTP, for administrators: it names files and hosts."""

from __future__ import annotations

from broker_app.base.events import KINDS
from broker_app.net.http.limits import RestLimits
from broker_app.net.http.refusals import invalid
from broker_app.net.http.replies import Reply, json_reply
from broker_app.net.http.requests import Request, whole_number
from broker_app.telemetry.event_log import EventLog, LoggedEvent


class EventLogEndpoint:
    """Endpoint `events`."""

    def __init__(self, events: EventLog, limits: RestLimits) -> None:
        self._events = events
        self._limits = limits

    async def page(self, request: Request) -> Reply:
        """GET events: the newest first"""
        request.require_administrator("the event log is")
        query = request.query(("limit", "after", "kind", "name"))
        limit = whole_number(query, "limit", 100, 1, self._limits.max_page)
        before = whole_number(query, "after", 0, 1, 10**15 - 1) if "after" in query else None
        kind, name = query.get("kind"), query.get("name")
        if kind is not None and kind not in KINDS:
            raise invalid("query/kind", f"must be one of {', '.join(KINDS)}", kind)

        def fits(event: LoggedEvent) -> bool:
            return kind in (None, event.kind) and name in (None, event.name)

        found = self._events.page(limit + 1, before, fits)
        following = str(found[limit - 1].number) if len(found) > limit else None
        items = [event.shown() for event in found[:limit]]
        return json_reply({"items": items, "next": following, "approx_total": len(self._events)})
