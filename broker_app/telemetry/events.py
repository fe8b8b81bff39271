"""The events of the event log and of bridges, by name, with what the console shows of each."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from broker_app.base.marked import mark as _

#: kinds of what something happens to
BRIDGES, FILES, ALERTS, MIRRORS, CLUSTER, CALLBACKS, REFLEXES, STORE, BROKER = KINDS = (
    _("bridges"), _("files"), _("alerts"), _("mirrors"), _("cluster"), _("callbacks"), _("reflexes"),
    _("store"), _("broker"),
)  # fmt: skip


class Event(NamedTuple):
    """An event of the event log, of something of a `kind`. Its name is its label, too. `code` is that of a
    trouble, which is logged as a warning. `sentence` has fields in braces; `detail` is the reason."""

    kind: str
    name: str
    code: str = ""
    sentence: str = "{detail}"


#: all events that are declared with their sentences
DECLARED: Final[list[Event]] = []


def _event(*members: str) -> Event:
    DECLARED.append(event := Event(*members))
    return event


#: its code is the cause
TOOK_OVER = _event(MIRRORS, _("took over"))
WITHOUT_MAIN = _event(
    MIRRORS,
    _("active without main"),
    "MIRROR_ACTIVE_WITHOUT_MAIN",
    "this is a mirror (role -1), and no main broker was there to follow: it serves as one",
)
MIRROR_JOINED = _event(MIRRORS, _("mirror joined"), "", "{mirror} follows")
MIRROR_LEFT = _event(MIRRORS, _("mirror left"), "MIRROR_LEFT", "{mirror} does not follow any more")
SETTINGS_DIFFER = _event(MIRRORS, _("settings differ"), "MIRROR_SETTINGS_DIFFER")
LINK_UP = _event(CLUSTER, _("link up"))
LINK_DOWN = _event(CLUSTER, _("link down"), "LINK_DOWN")
LINK_REFUSED = _event(CLUSTER, _("link refused"), "LINK_REFUSED")
KEEPER_AWAY = _event(CLUSTER, _("keeper away"), "KEEPER_AWAY")
KEEPER_BACK = _event(CLUSTER, _("keeper back"), "", "")
MEMBER_TAKEN_OVER = _event(
    CLUSTER,
    _("took over"),
    "CLUSTER_TAKEOVER",
    "{why}; this broker serves its {messages} messages after {took_s} s; lost: {lost}",
)
DRAINED = _event(CLUSTER, _("drained"), "", "all messages that it had stored are delivered")
_CHANGED = "{setting} was {running!r}, and is {file!r} in the central file"
SETTING_CHANGED = _event(CLUSTER, _("setting changed"), "", _CHANGED)
SETTING_NOT_CHANGED = _event(
    CLUSTER, _("setting not changed"), "CONFLICT", f"{_CHANGED}: it needs a restart of the broker"
)
REBALANCING_BEGUN = _event(CLUSTER, _("rebalancing begun"), "", "{cause}; to go: {planned}")
REBALANCING_ENDED = _event(CLUSTER, _("rebalancing ended"), "", "{state}; gone: {moved}")
NOT_APPLIED = _event(
    CLUSTER, _("not applied"), "CONFLICT", "the change of broker {broker} cannot be made here: {detail}"
)
NOT_DELETED = _event(
    CLUSTER,
    _("not deleted"),
    "CONFLICT",
    "broker {broker} has deleted it; here it stays without settings: {detail}",
)
NOT_CHANGED_YET = _event(CLUSTER, _("not changed yet"), "CONFLICT")
NEARLY_FULL = _event(STORE, _("nearly full"), "NEARLY_FULL")
HAS_SPACE = _event(STORE, _("has space again"), "", "the journal uses {percent:.0f} % of its space")
#: orders to the broker
QUIESCE = _event(BROKER, _("quiesced"), "", "by {detail}")
UNQUIESCE = _event(BROKER, _("unquiesced"), "", "by {detail}")
PAUSE = _event(BROKER, _("paused"), "", "by {detail}")
RESUME = _event(BROKER, _("resumed"), "", "by {detail}")
RESTART = _event(BROKER, _("restarts"), "", "by {detail}")
SHUTDOWN = _event(BROKER, _("shuts down"), "", "by {detail}")
QUIESCED = _event(BROKER, _("quiesce complete"), "", "no client is connected any more")

#: the label of each event, of those without a declaration too
EVENTS: Final[Mapping[str, str]] = MappingProxyType({
    "connected": _("connected"), "retrying": _("retrying"), "failed": _("failed"),
    "reconfigured": _("reconfigured"), "restarted": _("restarted"), "paused": _("paused"),
    "resumed": _("resumed"), "draining": _("draining"), "started": _("started"),
    "suspended": _("suspended"), "refused": _("refused"), "stalled": _("stalled"),
    "dead_lettered": _("dead-lettered"),
    "gap": _("gap"), "recovered": _("recovered"), "fired": _("fired"), "ended": _("ended"),
    "acknowledged": _("acknowledged"), "silenced": _("silenced"), "unsilenced": _("no longer silenced"),
    "verified": _("URL verified"), "unverified": _("URL not verified"),
    "breaker opened": _("breaker opened"), "breaker closed": _("breaker closed"),
    "subscription replaced": _("subscription replaced"), "subscription deleted": _("subscription deleted"),
    "subscription kept": _("subscription kept"), "not delivered": _("not delivered"),
    "applied": _("applied"), "unchanged": _("unchanged"),
    **{event.name: event.name for event in DECLARED},
})  # fmt: skip
