"""Clients of a broker in a cluster for its page: their lists, and what a rebalancing would do."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

from django.utils.translation import gettext_lazy as _

from broker_app.base.states import REBALANCING
from broker_app.features.cluster.clients.client_reports import (
    ListsReport,
    RebalanceReport,
    Rebalancing,
    Stays,
)
from broker_app.web.console.base.badges import badge
from broker_app.web.console.base.shown import Shown

#: rows of each history
_SHOWN: Final = 10
#: reasons to stay
_WORDS: Final[dict[Stays, Any]] = {
    "no-list": _("take no list"),
    "priority": _("prefer this broker"),
    "transaction": _("have a transaction"),
    "deliveries": _("have deliveries to settle"),
    "asked": _("were asked"),
    "declined": _("stayed though asked"),
    "no-address": _("have no address elsewhere"),
    "not-needed": _("need not go"),
}


def shown_clients(lists: ListsReport, rebalance: RebalanceReport) -> Shown:
    """The clients for a template."""
    running = rebalance.running
    return {
        "lists": lists,
        "rebalance": rebalance,
        "would_move": sum(one.gets for one in rebalance.brokers),
        "running_planned": sum(running.planned.values()) if running is not None else 0,
        "running_moved": sum(running.moved.values()) if running is not None else 0,
        "stays": [
            {"word": word, "number": rebalance.stays[reason]}
            for reason, word in _WORDS.items()
            if reason in rebalance.stays
        ],
        "history": [_past(one) for one in rebalance.history[:_SHOWN]],
        "versions": [
            {
                "version": one.version,
                "since": _time(one.since),
                "cause": one.cause,
                "uris": " ".join(one.uris),
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
