"""The page of the event log: events of bridges, files, alerts, mirrors and others, by kind."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext as translated

from broker_app.base import events
from broker_app.telemetry.alerts.conditions import CONDITIONS
from broker_app.telemetry.event_log import LoggedEvent
from broker_app.web.console.base.alert_words import alert_in_words
from broker_app.web.console.base.causes import detail_in_words
from broker_app.web.console.base.frame import AdministratorsPage
from broker_app.web.console.base.labels import label_of_event
from broker_app.web.console.base.shown import Shown
from broker_app.web.console.forwarding.callbacks import page_of
from broker_app.web.console.forwarding.reflexes import page_of as page_of_reflex
from broker_app.web.policy_sync import node_of

_SHOWN = 200
#: of the number of an event in an address
_DIGITS = 15
#: events of libraries of reflexes; others are of single reflexes
_OF_LIBRARIES = (events.LIBRARY_FAILED.name, events.LIBRARY_RECOVERED.name)


class EventsPage(AdministratorsPage):
    """The events up to the number `until`, which is that of the newest one when the page is opened: what
    happens meanwhile does not move the rows that one reads, and is a link."""

    def get(self, request: HttpRequest) -> HttpResponse:
        node = node_of(request)
        query, kind = request.GET.get("filter", "").strip(), request.GET.get("kind", "")
        trouble = request.GET.get("trouble") == "1"
        kept = node.events.all() if node is not None else []
        until = _until(request, kept)
        matching = [
            event
            for event in kept
            if query.casefold() in _words(event) and kind in ("", event.kind) and (event.code or not trouble)
        ]
        shown = [event for event in matching if event.number <= until]
        asked = request.GET.copy()
        asked.pop("until", None)
        context = {
            "node": node is not None,
            "filter": query,
            "kind": kind,
            "kinds": [("", _("all kinds")), *((one, translated(one)) for one in events.KINDS)],
            "trouble": trouble,
            "filtered": bool(query or kind or trouble),
            "all": sum(event.number <= until for event in kept),
            "matching": len(shown),
            "rows": [shown_event(event) for event in shown[:_SHOWN]],
            "newer": len(matching) - len(shown),
            "newest_address": f"{request.path}?{asked.urlencode()}".rstrip("?"),
            "same_address": f"{request.path}?{urlencode({**asked.dict(), 'until': until})}",
        }
        return render(request, "console/events.html", context)


def _until(request: HttpRequest, kept: Sequence[LoggedEvent]) -> int:
    """The number of the last event that is shown: the newest one, unless the address has an older one."""
    newest = kept[0].number if kept else 0
    asked = request.GET.get("until", "")
    # One that is larger is of the log before the broker was started again.
    return min(int(asked), newest) if asked.isdecimal() and len(asked) <= _DIGITS else newest


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


def _detail(event: LoggedEvent) -> str:
    """The detail of an event in the language of the page."""
    facts = event.facts
    if event.kind != events.ALERTS or facts.get("condition") not in CONDITIONS:
        return detail_in_words(event)
    return alert_in_words(facts["condition"], facts["subject"], facts["value"], facts["found"])


def shown_event(event: LoggedEvent) -> Shown:
    """An event for a template, in the language of the page, with the address of the page of its source."""
    about = {
        events.BRIDGES: f"{reverse('console:bridges')}?{urlencode({'filter': event.name})}",
        events.ALERTS: reverse("console:alerts"),
        events.MIRRORS: reverse("console:mirrors"),
        events.CLUSTER: reverse("console:cluster"),
        events.CALLBACKS: _of_callback(event.name),
        events.REFLEXES: _of_reflex(event),
        events.STORE: reverse("console:alerts"),
        events.BROKER: reverse("console:settings"),
    }.get(event.kind, reverse("console:files"))
    label = label_of_event(event.event)
    return {
        "time": datetime.fromtimestamp(event.at_s, UTC),
        "event": event,
        "label": label,
        "detail": _detail(event),
        "about": about,
    }
