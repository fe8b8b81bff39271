"""The status of mirrors, with labels and signs for the page."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Final

from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from broker_app.base import durations
from broker_app.base.refused import Refused
from broker_app.journal.shared.private_journal import PrivateState
from broker_app.net.rest.node.mirror_status import (
    ACTIVE,
    DATABASE,
    EXPIRED,
    FORCED,
    FORMER_STOPPED,
    READABLE,
    SEALED,
    STANDBY,
    STARTED,
    STOPPED,
    SWITCHOVER,
    UNREACHABLE,
    MirrorBroker,
    Mirrors,
    PrivateJournalStatus,
    Takeover,
)
from broker_app.web.console.base.health import State, health_badge
from broker_app.web.console.base.lag_chart import lag_chart
from broker_app.web.console.base.shown import Shown
from broker_app.web.policy_sync import ask, node_of

if TYPE_CHECKING:
    from django.utils.functional import _StrPromise as StrPromise

NO_NODE: Final = _("This process only serves the console and does not know the mirrors of the broker.")
#: states of brokers that share a journal
STATES: Final = {
    ACTIVE: State(_("active"), "circle-check", "good"),
    STANDBY: State(_("standby"), "circle", "quiet"),
    STOPPED: State(_("stopped"), "circle-off", "quiet"),
    UNREACHABLE: State(_("not reachable"), "circle-x", "bad"),
}
_BEHIND: Final = State(_("standby, behind"), "triangle-alert", "warn")
#: states of the private journal
PRIVATE_STATES: Final = {
    PrivateState.COPYING: State(_("being copied"), "triangle-alert", "warn"),
    PrivateState.IN_STEP: State(_("in step"), "circle-check", "good"),
    PrivateState.FAILED: State(_("not written"), "circle-x", "bad"),
}
#: how the configuration reaches the other brokers
CONFIGURATIONS: Final = {
    SEALED: State(_("sealed"), "circle-check", "good"),
    READABLE: State(_("readable in the store"), "triangle-alert", "warn"),
    DATABASE: State(_("in a shared database"), "circle", "quiet"),
}
#: reasons of takeovers
CAUSES: Final = {
    STARTED: State(_("started"), "circle", "quiet"),
    FORMER_STOPPED: State(_("clean stop"), "circle", "quiet"),
    SWITCHOVER: State(_("switch-over"), "circle-check", "good"),
    EXPIRED: State(_("lease expired"), "triangle-alert", "warn"),
    FORCED: State(_("forced"), "circle-x", "bad"),
}


def status_of(request: HttpRequest) -> tuple[Mirrors | None, StrPromise | str]:
    """The status as `GET mirrors` returns it, empty if the journal is not shared; or the reason why it is
    unknown."""
    node = node_of(request)
    if node is None:
        return None, NO_NODE
    try:
        return ask(node, node.operations.mirror_status()), ""
    except Refused as refusal:
        return None, refusal.detail


def shown(status: Mirrors) -> Shown:
    """The status for a template: the holder, the brokers, what would be lost, the timeline."""
    lease = status["lease"]
    brokers = [_broker(one, status["id"]) for one in status["brokers"]]
    takeovers = [_takeover(one) for one in status["takeovers"]]
    holder = lease["holder"] if lease else ""
    latest = takeovers[0] if takeovers and lease and takeovers[0]["epoch"] == lease["epoch"] else None
    return {
        **status,
        "state": health_badge(status, {ACTIVE: _("active")}),
        "brokers": brokers,
        "lag_chart": lag_chart({one["id"]: one["lags"] for one in status["brokers"] if one["lags"]}),
        "standbys": [one for one in brokers if one["is_standby"]],
        "successor_in_step": next((one["id"] for one in brokers if one["is_standby"] and one["in_step"]), ""),
        "holder": next((one for one in brokers if one["id"] == holder), {"id": holder}),
        "epoch": lease["epoch"] if lease else None,
        "lease_left": durations.in_words(lease["left_s"]) if lease else "",
        "renewed": durations.in_words(status["lease_s"] - lease["left_s"]) if lease else "",
        "configuration": CONFIGURATIONS[status["configuration"]],
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
    state = _BEHIND if is_standby and not broker["in_step"] else STATES[broker["state"]]
    return {
        **broker,
        "state": state,
        "is_standby": is_standby,
        "is_active": broker["state"] == ACTIVE,
        "is_this": broker["id"] == own_id,
        "lag": durations.in_words(broker["lag_s"]),
        "seen": durations.in_words(broker["seen_s"]),
    }


def _private(found: PrivateJournalStatus | None) -> Shown | None:
    return None if found is None else {**found, "state": PRIVATE_STATES[PrivateState(found["state"])]}


def _takeover(takeover: Takeover) -> Shown:
    return {
        **takeover,
        "time": datetime.fromisoformat(takeover["at"]),
        "why": CAUSES[takeover["cause"]],
        "took": f"{takeover['took_s']:.2f} s",
        "has_former": takeover["cause"] != STARTED and bool(takeover["former"]),
    }
