"""Clients of a broker in a cluster for its page: their lists, and what a rebalancing would do."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from broker_app.base.states import REBALANCING, STAYS
from broker_app.features.cluster.clients.client_reports import (
    ListsReport,
    RebalanceReport,
    Rebalancing,
)
from broker_app.web.console.base.badges import badge
from broker_app.web.console.base.shown import Shown

#: rows of each history
_SHOWN: Final = 10


def shown_clients(lists: ListsReport, rebalance: RebalanceReport) -> Shown:
    """The clients for a template."""
    running = rebalance.running
    return {
        "lists": lists,
        "own": " ".join(lists.own),
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
