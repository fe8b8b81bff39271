"""Clients of a broker in a cluster for its page: their lists, and what a rebalancing would do."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

from django.http import HttpRequest

from broker_app.base.states import LIST_PLACE, REBALANCING, STAYS
from broker_app.features.cluster.clients.client_reports import (
    ListPlace,
    ListsReport,
    RebalanceReport,
    Rebalancing,
)
from broker_app.web.console.base.badges import badge
from broker_app.web.console.base.shown import Shown
from broker_app.web.console.forwarding.cluster_status import NO_NODE
from broker_app.web.policy_sync import answer_of

#: rows of each history
_SHOWN: Final = 10
#: rows of clients
_CLIENTS: Final = 50
#: characters of the words that are sought
_WORDS: Final = 200


def shown_clients(lists: ListsReport, rebalance: RebalanceReport) -> Shown:
    """The clients for a template."""
    running = rebalance.running
    return {
        "lists": lists,
        "own": " ".join(lists.own),
        "are_sent": lists.updates or any(one.updates for one in lists.listeners),
        "places": _places(lists.brokers),
        "listeners": [
            {"one": one, "uris": " ".join(one.uris), "places": _places(one.brokers)}
            for one in lists.listeners
        ],
        "rebalance": rebalance,
        "would_move": sum(one.gets for one in rebalance.brokers),
        "running_planned": sum(running.planned.values()) if running is not None else 0,
        "running_moved": sum(running.moved.values()) if running is not None else 0,
        "stays": [
            {"word": badge(state).word, "number": rebalance.stays[reason]}
            for reason, state in STAYS.items()
            if reason and reason in rebalance.stays
        ],
        "history": [_past(one) for one in rebalance.history[:_SHOWN]],
        "held": [
            {"one": one, "since": _time(one.since) if one.since is not None else None} for one in lists.held
        ],
        "held_versions": sorted({one.version for one in lists.held}, reverse=True),
        "held_by_others": lists.clients - sum(one.clients for one in lists.held),
        "versions": [
            {
                "version": one.version,
                "since": _time(one.since),
                "cause": one.cause,
                "others": " ".join(uri for uri in one.uris if uri not in lists.own),
            }
            for one in lists.versions[:_SHOWN]
        ],
    }


def _places(places: list[ListPlace]) -> list[Shown]:
    return [{"broker": one.broker, "state": badge(LIST_PLACE[one.state])} for one in places]


def found_clients(request: HttpRequest) -> Shown:
    """The first of the clients that the form of the page asks for, those with an older list before others."""
    words, which = request.GET.get("client", "").strip()[:_WORDS], request.GET.get("which", "")
    query = {"sort": "-behind,list_version", "limit": str(_CLIENTS)}
    query |= {"q": words} if words else {}
    query |= {which: "true"} if which in ("behind", "moves") else {}
    query |= {"list_version": which} if which.isdecimal() else {}
    page, fault = answer_of(request, lambda node: node.operations.list_cluster_clients(query), NO_NODE)
    return {
        "words": words,
        "which": which,
        "fault": fault,
        "matching": page.approx_total if page is not None else 0,
        "rows": [_client(row) for row in page.items] if page is not None else [],
    }


def _client(row: dict[str, Any]) -> Shown:
    since = row["list_since"]
    return {
        **row,
        "since": datetime.fromisoformat(since) if since is not None else None,
        "stays": badge(STAYS[row["stays"]]).word if row["stays"] else "",
    }


def _past(one: Rebalancing) -> Shown:
    return {
        "began": _time(one.began),
        "state": badge(REBALANCING[one.state]),
        "cause": one.cause,
        "planned": sum(one.planned.values()),
        "moved": sum(one.moved.values()),
        "declined": one.declined,
    }


def _time(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
