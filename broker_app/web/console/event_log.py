"""The page of the event log: events of bridges, files, alerts, mirrors and others, by kind."""

from __future__ import annotations

from datetime import UTC, datetime
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext_lazy as _

from broker_app.reflex.reflexes import FAILED, RECOVERED
from broker_app.telemetry.event_log import LoggedEvent
from broker_app.telemetry.events import (
    ALERTS,
    BRIDGES,
    BROKER,
    CALLBACKS,
    CLUSTER,
    FILES,
    MIRRORS,
    REFLEXES,
    STORE,
)
from broker_app.web.console.base.frame import AdministratorsPage
from broker_app.web.console.base.labels import label_of_event
from broker_app.web.console.forwarding.callbacks import page_of
from broker_app.web.console.forwarding.reflexes import page_of as page_of_reflex
from broker_app.web.policy_sync import node_of

_SHOWN = 200
#: events of libraries of reflexes; others are of single reflexes
_OF_LIBRARIES = (FAILED, RECOVERED)
_KINDS = (
    ("", _("all kinds")),
    (BRIDGES, _("bridges")),
    (FILES, _("files")),
    (ALERTS, _("alerts")),
    (MIRRORS, _("mirrors")),
    (CLUSTER, _("cluster")),
    (CALLBACKS, _("callbacks")),
    (REFLEXES, _("reflexes")),
    (STORE, _("store")),
    (BROKER, _("broker")),
)


class EventsPage(AdministratorsPage):
    def get(self, request: HttpRequest) -> HttpResponse:
        node = node_of(request)
        query, kind = request.GET.get("filter", "").strip(), request.GET.get("kind", "")
        trouble = request.GET.get("trouble") == "1"
        events = node.events.all() if node is not None else []
        matching = [
            event
            for event in events
            if query.casefold() in _words(event) and kind in ("", event.kind) and (event.code or not trouble)
        ]
        context = {
            "node": node is not None,
            "filter": query,
            "kind": kind,
            "kinds": _KINDS,
            "trouble": trouble,
            "filtered": bool(query or kind or trouble),
            "all": len(events),
            "matching": len(matching),
            "rows": [_row(event) for event in matching[:_SHOWN]],
        }
        return render(request, "console/events.html", context)


def _words(event: LoggedEvent) -> str:
    return f"{event.kind} {event.name} {event.event} {event.code} {event.detail}".casefold()


def _of_callback(name: str) -> str:
    """The page of a callback; the list for a host, with its port, which many may call."""
    return reverse("console:callbacks") if ":" in name else page_of(name)


def _of_reflex(event: LoggedEvent) -> str:
    """The page of a reflex; the list for a library, which many may use."""
    if event.event in _OF_LIBRARIES:
        return f"{reverse('console:reflexes')}?{urlencode({'filter': event.name})}"
    return page_of_reflex(event.name)


def _row(event: LoggedEvent) -> dict[str, object]:
    """An event, and the address of the page of its source."""
    about = {
        BRIDGES: f"{reverse('console:bridges')}?{urlencode({'filter': event.name})}",
        ALERTS: reverse("console:alerts"),
        MIRRORS: reverse("console:mirrors"),
        CLUSTER: reverse("console:cluster"),
        CALLBACKS: _of_callback(event.name),
        REFLEXES: _of_reflex(event),
        STORE: reverse("console:alerts"),
        BROKER: reverse("console:settings"),
    }.get(event.kind, reverse("console:files"))
    label = label_of_event(event.event)
    return {
        "time": datetime.fromtimestamp(event.at_s, UTC),
        "event": event,
        "label": label,
        "about": about,
    }
