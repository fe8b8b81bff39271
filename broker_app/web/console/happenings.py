"""The page of the event log: what happened to bridges and to files of the configuration."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse

from broker_app.telemetry.eventlog import BRIDGES, Logged
from broker_app.web.console.frame import AdministratorsPage
from broker_app.web.obeying import node_of

_SHOWN = 200


class EventsPage(AdministratorsPage):
    def get(self, request: HttpRequest) -> HttpResponse:
        node = node_of(request)
        sought = request.GET.get("filter", "").strip()
        events = node.events.all() if node is not None else []
        matching = [event for event in events if sought.casefold() in _words(event)]
        context = {
            "node": node is not None,
            "filter": sought,
            "all": len(events),
            "matching": len(matching),
            "rows": [_row(event) for event in matching[:_SHOWN]],
        }
        return render(request, "console/events.html", context)


def _words(event: Logged) -> str:
    return f"{event.kind} {event.name} {event.event} {event.code} {event.detail}".casefold()


def _row(event: Logged) -> dict[str, Any]:
    """An event, and the page of what it is about."""
    about = reverse("console:files")
    if event.kind == BRIDGES:
        about = f"{reverse('console:bridges')}?{urlencode({'filter': event.name})}"
    return {"time": datetime.fromtimestamp(event.at_s, UTC), "event": event, "about": about}
