"""The status of mirrors, with labels and signs for the page."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Final

from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from broker_app.base import durations, states
from broker_app.base.states import BEHIND
from broker_app.net.rest.node.mirror_status import (
    ACTIVE,
    FORCED,
    READABLE,
    STANDBY,
    STARTED,
    MirrorBroker,
    Mirrors,
    PrivateJournalStatus,
    Takeover,
)
from broker_app.web.console.base.badges import badge, health_badge
from broker_app.web.console.base.lag_chart import lag_chart
from broker_app.web.console.base.shown import Shown
from broker_app.web.policy_sync import answer_of

if TYPE_CHECKING:
    from django.utils.functional import _StrPromise as StrPromise

NO_NODE: Final = _("This process only serves the console and does not know the mirrors of the broker.")


def status_of(request: HttpRequest) -> tuple[Mirrors | None, StrPromise | str]:
    """The status as `GET mirrors` returns it, empty if the journal is not shared; or the reason why it is
    unknown."""
    return answer_of(request, lambda node: node.operations.mirror_status(), NO_NODE)


def shown(status: Mirrors) -> Shown:
    """The status for a template: the holder, the brokers, what would be lost, the timeline."""
    lease = status["lease"]
    brokers = [_broker(one, status["id"]) for one in status["brokers"]]
    takeovers = [_takeover(one) for one in status["takeovers"]]
    holder = lease["holder"] if lease else ""
    latest = takeovers[0] if takeovers and lease and takeovers[0]["epoch"] == lease["epoch"] else None
    return {
        **status,
        "state": health_badge(status, states.MIRROR),
        "brokers": brokers,
        "lag_chart": lag_chart({one["id"]: one["lags"] for one in status["brokers"] if one["lags"]}),
        "standbys": [one for one in brokers if one["is_standby"]],
        "successor_in_step": next((one["id"] for one in brokers if one["is_standby"] and one["in_step"]), ""),
        "holder": next((one for one in brokers if one["id"] == holder), {"id": holder}),
        "epoch": lease["epoch"] if lease else None,
        "lease_left": durations.in_words(lease["left_s"]) if lease else "",
        "renewed": durations.in_words(status["lease_s"] - lease["left_s"]) if lease else "",
        "configuration": badge(states.CONFIGURATION_COPY[status["configuration"]]),
        "is_readable": status["configuration"] == READABLE,
        "private": _private(status["private_journal"]),
        "pause_left": durations.in_words(status["pause"]["left_s"]) if status["pause"] else "",
        "takeovers": takeovers,
        "latest": latest,
        #: it is stated above everything else
        "costly": latest if latest and (latest["cause"] == FORCED or latest["records_lost"]) else None,
    }


def _broker(broker: MirrorBroker, own_id: str) -> Shown:
    is_standby = broker["state"] == STANDBY
    is_behind = is_standby and not broker["in_step"]
    return {
        **broker,
        "state": badge(BEHIND if is_behind else states.MIRROR[broker["state"]]),
        "is_standby": is_standby,
        "is_active": broker["state"] == ACTIVE,
        "is_this": broker["id"] == own_id,
        "lag": durations.in_words(broker["lag_s"]),
        "seen": durations.in_words(broker["seen_s"]),
    }


def _private(found: PrivateJournalStatus | None) -> Shown | None:
    return None if found is None else {**found, "state": badge(states.PRIVATE_JOURNAL[found["state"]])}


def _takeover(takeover: Takeover) -> Shown:
    return {
        **takeover,
        "time": datetime.fromisoformat(takeover["at"]),
        "why": badge(states.TAKEOVER_CAUSE[takeover["cause"]]),
        "took": f"{takeover['took_s']:.2f} s",
        "has_former": takeover["cause"] != STARTED and bool(takeover["former"]),
    }
