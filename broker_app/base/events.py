"""All events of the event log and of bridges: what may be logged, published on `$mom.event`, and labelled.

`EventLog.report` takes nothing else, so what is not declared here cannot be published.
"""

from __future__ import annotations

from collections.abc import Mapping
from string import Formatter
from types import MappingProxyType
from typing import Final, NamedTuple

from broker_app.base.marked import mark as _

#: kinds of what something happens to
BRIDGES, FILES, ALERTS, MIRRORS, CLUSTER, CALLBACKS, REFLEXES, STORE, BROKER = KINDS = (
    _("bridges"), _("files"), _("alerts"), _("mirrors"), _("cluster"), _("callbacks"), _("reflexes"),
    _("store"), _("broker"),
)  # fmt: skip


#: the code of events that have that of an error, or of a cause
OF_CAUSE: Final = "*"


class Event(NamedTuple):
    """An event of the event log, of something of a `kind`. `code` is that of a trouble, which is logged as a
    warning. `sentence` has fields in braces; `detail` is the reason. `facts` are further fields, with commas.
    `label` is its name in the console."""

    kind: str
    name: str
    code: str = ""
    sentence: str = "{detail}"
    facts: str = ""
    shown_as: str = ""

    @property
    def label(self) -> str:
        """The text to be translated."""
        return self.shown_as or self.name

    @property
    def fields(self) -> tuple[str, ...]:
        """The names of its facts: those of the sentence but for `detail`, and further ones."""
        named = [name for _, name, _, _ in Formatter().parse(self.sentence) if name and name != "detail"]
        return tuple(dict.fromkeys([*named, *filter(None, self.facts.split(","))]))


#: all events
DECLARED: Final[list[Event]] = []


def _event(*members: str) -> Event:
    DECLARED.append(event := Event(*members))
    return event


BRIDGE_CONNECTED = _event(BRIDGES, _("connected"), "", "{detail}", "queue")
BRIDGE_RETRYING = _event(BRIDGES, _("retrying"), OF_CAUSE, "{detail}", "queue")
BRIDGE_FAILED = _event(BRIDGES, _("failed"), OF_CAUSE, "{detail}", "queue")
BRIDGE_RECONFIGURED = _event(
    BRIDGES, _("reconfigured"), "", _("it reconnects, because its configuration changed"), "queue"
)
BRIDGE_RESTARTED = _event(BRIDGES, _("restarted"), "", "{detail}", "queue")
BRIDGE_PAUSED = _event(BRIDGES, _("paused"), "", "", "queue")
BRIDGE_RESUMED = _event(BRIDGES, _("resumed"), "", "", "queue")
BRIDGE_DRAINING = _event(BRIDGES, _("draining"), "", "", "queue")
#: of one queue of a bridge
FLOW_STARTED = _event(BRIDGES, _("started"), "", "", "queue")
FLOW_SUSPENDED = _event(BRIDGES, _("suspended"), "", "", "queue")
FLOW_REFUSED = _event(BRIDGES, _("refused"), OF_CAUSE, "{detail}", "queue")
FLOW_STALLED = _event(BRIDGES, _("stalled"), OF_CAUSE, "{detail}", "queue")
FLOW_RECOVERED = _event(BRIDGES, _("recovered"), "", "", "queue")
FLOW_DEAD_LETTERED = _event(BRIDGES, "dead_lettered", OF_CAUSE, "{detail}", "queue", _("dead-lettered"))
FLOW_GAP = _event(BRIDGES, _("gap"), "GAP", "{detail}", "queue")

_READ = "trigger,outcome,version,added,changed,removed,errors,warnings"
FILES_APPLIED = _event(FILES, _("applied"), "", "{detail}", _READ)
FILES_UNCHANGED = _event(FILES, _("unchanged"), "", "{detail}", _READ)
FILES_REFUSED = _event(FILES, _("refused"), "CONFIG", "{detail}", _READ)

#: of an alert, by its id: `found` are its facts
_OF_ALERT = "alert,condition,subject,value,found"
#: its code is the condition
ALERT_FIRED = _event(ALERTS, _("fired"), OF_CAUSE, "{detail}", _OF_ALERT)
ALERT_ENDED = _event(ALERTS, _("ended"), "", "{detail}", _OF_ALERT)
ALERT_ACKNOWLEDGED = _event(ALERTS, _("acknowledged"), "", "{detail}", _OF_ALERT)
ALERT_SILENCED = _event(ALERTS, _("silenced"), "", "{detail}", _OF_ALERT)
ALERT_UNSILENCED = _event(ALERTS, "unsilenced", "", "{detail}", _OF_ALERT, _("no longer silenced"))
NOT_DELIVERED = _event(ALERTS, _("not delivered"), "NOTIFICATION", "{target}: {fault}")

URL_VERIFIED = _event(CALLBACKS, "verified", "", "", "", _("URL verified"))
URL_UNVERIFIED = _event(CALLBACKS, "unverified", "CHALLENGE", "{detail}", "", _("URL not verified"))
CALLBACK_ENDED = _event(CALLBACKS, _("ended"), "GONE", "{detail}")
CALLBACK_FAILED = _event(CALLBACKS, _("failed"), "CONFIG", "{detail}")
CALLBACK_STARTED = _event(CALLBACKS, _("started"), "", "{detail}")
CALLBACK_SUSPENDED = _event(CALLBACKS, _("suspended"), "RIGHT", "{detail}")
#: of the host that callbacks call
BREAKER_OPENED = _event(CALLBACKS, _("breaker opened"), "BREAKER", "{detail}")
BREAKER_CLOSED = _event(CALLBACKS, _("breaker closed"), "", "{detail}")
SUBSCRIPTION_REPLACED = _event(
    CALLBACKS,
    _("subscription replaced"),
    "",
    _("it has another source: {messages} messages of the former subscription were dropped"),
)
SUBSCRIPTION_DELETED = _event(
    CALLBACKS,
    _("subscription deleted"),
    "",
    _("there is no such callback any more; {messages} messages were dropped"),
)
SUBSCRIPTION_KEPT = _event(CALLBACKS, _("subscription kept"), "CONFLICT", "{detail}")

#: its code is REFLEX_FAILED when the function failed
REFLEX_REFUSED = _event(
    REFLEXES,
    _("refused"),
    OF_CAUSE,
    "{detail}",
    "refusals,service,user,machine,destination,type,id",
)
#: of a library, which is not called for a while
LIBRARY_FAILED = _event(REFLEXES, _("failed"), "REFLEX_FAILED", "{detail}")
LIBRARY_RECOVERED = _event(REFLEXES, _("recovered"), "", "")
MESSAGE_AUDITED = _event(
    REFLEXES,
    _("audited"),
    "",
    _("{bytes} bytes from {user} to {destination}"),
    "type,id,headers",
)

#: its code is the cause
TOOK_OVER = _event(
    MIRRORS,
    _("took over"),
    OF_CAUSE,
    "{detail}",
    "cause,epoch,at_s,broker,role,former,position,took_s,non_persistent_lost",
)
WITHOUT_MAIN = _event(
    MIRRORS,
    _("active without main"),
    "MIRROR_ACTIVE_WITHOUT_MAIN",
    _("this is a mirror (role -1), and no main broker was there to follow: it serves as one"),
)
MIRROR_JOINED = _event(MIRRORS, _("mirror joined"), "", _("{mirror} follows"))
MIRROR_LEFT = _event(MIRRORS, _("mirror left"), "MIRROR_LEFT", _("{mirror} does not follow any more"))
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
    _("{why}; this broker serves its {messages} messages after {took_s} s; lost: {lost}"),
    "journal,epoch",
)
MEMBER_SUSPECT = _event(CLUSTER, _("suspect"), "MEMBER_SUSPECT", _("suspected by {by}: {detail}"))
NOT_SUSPECT = _event(CLUSTER, _("suspect no longer"), "", _("after {suspect_s:.1f} s: {detail}"))
DRAINED = _event(CLUSTER, _("drained"), "", _("all messages that it had stored are delivered"), "journal")
_CHANGED = _("{setting} was {running!r}, and is {file!r} in the central file")
SETTING_CHANGED = _event(CLUSTER, _("setting changed"), "", _CHANGED)
SETTING_NOT_CHANGED = _event(
    CLUSTER,
    _("setting not changed"),
    "CONFLICT",
    _("{setting} was {running!r}, and is {file!r} in the central file: it needs a restart of the broker"),
)
REBALANCING_BEGUN = _event(CLUSTER, _("rebalancing begun"), "", _("{cause}; to go: {planned}"))
REBALANCING_ENDED = _event(CLUSTER, _("rebalancing ended"), "", _("{state}; gone: {moved}"))
NOT_APPLIED = _event(
    CLUSTER, _("not applied"), "CONFLICT", _("the change of broker {broker} cannot be made here: {detail}")
)
NOT_DELETED = _event(
    CLUSTER,
    _("not deleted"),
    "CONFLICT",
    _("broker {broker} has deleted it; here it stays without settings: {detail}"),
)
NOT_CHANGED_YET = _event(CLUSTER, _("not changed yet"), "CONFLICT")
NEARLY_FULL = _event(STORE, _("nearly full"), "NEARLY_FULL")
HAS_SPACE = _event(STORE, _("has space again"), "", _("space is free again: {percent:.0f} percent is used"))
#: orders to the broker
QUIESCE = _event(BROKER, _("quiesced"), "", _("by {detail}"))
UNQUIESCE = _event(BROKER, _("unquiesced"), "", _("by {detail}"))
PAUSE = _event(BROKER, _("paused"), "", _("by {detail}"))
RESUME = _event(BROKER, _("resumed"), "", _("by {detail}"))
RESTART = _event(BROKER, _("restarts"), "", _("by {detail}"))
SHUTDOWN = _event(BROKER, _("shuts down"), "", _("by {detail}"))
SHUTDOWN_PLANNED = _event(BROKER, _("shutdown planned"), "", _("by {detail}"))
QUIESCED = _event(BROKER, _("quiesce complete"), "", _("no client is connected any more"))

#: the label of each event by its name, of whatever kind
EVENTS: Final[Mapping[str, str]] = MappingProxyType({event.name: event.label for event in DECLARED})
