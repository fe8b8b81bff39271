"""The events of the event log, of bridges and of clients, by name, with what the console shows of each."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from broker_app.base.marked import mark as _
from broker_app.base.states import Sign

_INFO, _WARNING, _ERROR = Sign("quiet", "circle"), Sign("warn", "triangle-alert"), Sign("bad", "circle-x")


class ClientEventType(NamedTuple):
    """An event of a client: its label, which the console translates, and its sign."""

    label: str
    sign: Sign


CLIENT_EVENTS: Final[Mapping[str, ClientEventType]] = MappingProxyType({
    "connected": ClientEventType(_("connected"), _INFO),
    "subscribed": ClientEventType(_("subscribed"), _INFO),
    "unsubscribed": ClientEventType(_("unsubscribed"), _INFO),
    "slow": ClientEventType(_("slow"), _WARNING),
    "recovered": ClientEventType(_("reads messages again"), _INFO),
    "refused": ClientEventType(_("refused"), _ERROR),
    "draining": ClientEventType(_("drained"), _WARNING),
    "disconnecting": ClientEventType(_("closed by an operator"), _ERROR),
    "closed": ClientEventType(_("disconnected"), _INFO),
})  # fmt: skip

EVENTS: Final[Mapping[str, str]] = MappingProxyType({
    "connected": _("connected"), "retrying": _("retrying"), "failed": _("failed"),
    "reconfigured": _("reconfigured"), "restarted": _("restarted"), "paused": _("paused"),
    "resumed": _("resumed"), "draining": _("draining"), "started": _("started"),
    "suspended": _("suspended"), "refused": _("refused"), "stalled": _("stalled"),
    "dead_lettered": _("dead-lettered"),
    "gap": _("gap"), "recovered": _("recovered"), "fired": _("fired"), "ended": _("ended"),
    "acknowledged": _("acknowledged"), "silenced": _("silenced"),
    "verified": _("URL verified"), "unverified": _("URL not verified"),
    "breaker opened": _("breaker opened"), "breaker closed": _("breaker closed"),
    "subscription replaced": _("subscription replaced"), "subscription deleted": _("subscription deleted"),
    "subscription kept": _("subscription kept"),
    "not delivered": _("not delivered"),
    "took over": _("took over"), "drained": _("drained"), "active without main": _("active without main"),
    "mirror joined": _("mirror joined"), "mirror left": _("mirror left"),
    "settings differ": _("settings differ"),
    "setting changed": _("setting changed"), "setting not changed": _("setting not changed"),
    "link up": _("link up"), "link down": _("link down"), "link refused": _("link refused"),
    "rebalancing begun": _("rebalancing begun"), "rebalancing ended": _("rebalancing ended"),
    "keeper away": _("keeper away"), "keeper back": _("keeper back"),
    "not applied": _("not applied"), "not deleted": _("not deleted"), "not changed yet": _("not changed yet"),
    "nearly full": _("nearly full"), "has space again": _("has space again"),
    "quiesced": _("quiesced"), "unquiesced": _("unquiesced"), "quiesce complete": _("quiesce complete"),
    "restarts": _("restarts"), "shuts down": _("shuts down"),
    "applied": _("applied"), "unchanged": _("unchanged"),
})  # fmt: skip
