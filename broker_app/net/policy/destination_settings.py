"""Settings of destinations: their table, and the policies of the core that follow from them.

A row holds the settings of one address ("/queue/orders"), of a pattern ("/queue/orders.>") or of all
destinations (">"). Each value of a destination is taken from its own row, else from the longest pattern that
has it, else from the node's settings, else it is the default of the core.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple

from broker_app.base.marked import mark as _
from broker_app.base.refused import Refused
from broker_app.base.suggestions import suggestion
from broker_app.config import Config
from broker_app.core.destination import QUEUE, TOPIC, check_name, has_wildcard, is_reserved, parse
from broker_app.core.policy import LIMIT_BEHAVIORS, PAUSES, SCOPES, DestinationPolicy, Policies

EVERYTHING = ">"
OWN, NODE, DEFAULT = "own", "node", "default"

_MOST = 2**53 - 1  # what every JSON reader takes for a whole number
_YEAR_S = 366 * 86_400


class Setting(NamedTuple):
    """One row of the table. `name` is the name in REST, the command line and the database, `field` that in
    the policy. A value of the policy is a configured value times `scale` (seconds to milliseconds). `summary`
    and the meaning of 0, `zero`, are translated by the console."""

    name: str
    field: str
    kind: type
    summary: str
    least: float = 0
    most: float = _MOST
    choices: tuple[str, ...] = ()
    scale: int = 1
    zero: str = ""

    @property
    def about(self) -> str:
        """One sentence on the setting."""
        return f"{self.summary}; 0 is {self.zero}" if self.zero else self.summary

    @property
    def default(self) -> Any:
        return self.from_policy(getattr(_DEFAULT, self.field))

    def from_policy(self, value: Any) -> Any:
        """Convert a value of the policy to a configured one."""
        return value / self.scale if self.scale != 1 else value

    def to_policy(self, value: Any) -> Any:
        """Convert a configured value to one of the policy."""
        return round(value * self.scale) if self.scale != 1 else self.kind(value)

    def error_in(self, value: Any) -> str:
        """Return the error in a value; empty if it is valid."""
        if self.kind in (int, float):
            right = isinstance(value, int | self.kind) and not isinstance(value, bool)
            if right and self.least <= value <= self.most:
                return ""
            kind = "whole number" if self.kind is int else "number"
            return f"must be a {kind} from {self.least:g} to {self.most:.16g}"
        if self.kind is bool:
            return "" if isinstance(value, bool) else "must be true or false"
        if self.choices:
            return "" if value in self.choices else f"must be one of {', '.join(self.choices)}"
        return _wrong_queue(value)


def _whole(name: str, summary: str, least: int = 0, most: int = _MOST) -> Setting:
    return Setting(name, name, int, summary, least, most)


def _limit(name: str, summary: str) -> Setting:
    return Setting(name, name, int, summary, zero=_("no limit"))


def _seconds(name: str, summary: str, zero: str = "") -> Setting:
    return Setting(f"{name}_s", f"{name}_ms", float, summary, 0, 10 * _YEAR_S, scale=1000, zero=zero)


def _truth(name: str, summary: str) -> Setting:
    return Setting(name, name, bool, summary)


_DEFAULT = DestinationPolicy()
SETTINGS: Mapping[str, Setting] = MappingProxyType(
    {
        setting.name: setting
        for setting in (
            _limit("max_messages", _("messages it may hold")),
            _limit("max_bytes", _("bytes of bodies it may hold")),
            _limit("max_message_bytes", _("bytes of one body")),
            _limit("max_producers", _("sessions that may send to it")),
            _limit("max_consumers", _("subscriptions it may have")),
            Setting(
                "limit_behavior", "limit_behavior", str, _("what happens at a limit"), choices=LIMIT_BEHAVIORS
            ),
            Setting(
                "scope",
                "scope",
                str,
                _("whether each broker of a cluster has these limits, or all have them together"),
                choices=SCOPES,
            ),
            _whole(
                "max_attempts", _("delivery attempts before a message becomes a dead letter"), 1, 1_000_000
            ),
            _seconds("retry_delay", _("delay before a returned message is redelivered")),
            Setting(
                "retry_factor",
                "retry_factor",
                float,
                _("factor by which each further delay is longer"),
                least=1,
                most=100,
            ),
            _seconds("max_retry_delay", _("longest redelivery delay")),
            Setting(
                "dead_letters",
                "dead_letters",
                str,
                _("queue of its dead letters; empty: its name and .dead"),
            ),
            _truth("dead_letter_expired", _("whether expired messages become dead letters")),
            _truth("use_dead_letters", _("whether dead letters are kept; otherwise they are discarded")),
            _seconds("dedup_window", _("how long a dedup-id is remembered")),
            _seconds("retention", _("how long a topic's history is kept for replay"), zero=_("none")),
            _limit("retention_bytes", _("bytes of a topic's history kept for replay")),
            _seconds(
                "slow_consumer",
                _("a consumer that settles nothing for so long is disconnected"),
                zero=_("never"),
            ),
            _truth("auto_create", _("whether queues are created by their first use")),
            Setting("paused", "paused", str, _("which clients are paused"), choices=PAUSES),
            _truth(
                "prefer_local",
                _("whether consumers of this broker come before those of other brokers; of queues"),
            ),
            _truth(
                "local_only",
                _("whether only consumers of this broker receive its messages; fixed when it is declared"),
            ),
        )
    }
)


class Alias(NamedTuple):
    """A property of destinations in GlassFish MQ: the setting here, or what there is `instead`."""

    setting: str = ""
    instead: str = ""


GLASSFISH: Mapping[str, Alias] = MappingProxyType(
    {
        "maxNumMsgs": Alias("max_messages"),
        "maxTotalMsgBytes": Alias("max_bytes"),
        "maxBytesPerMsg": Alias("max_message_bytes"),
        "maxNumProducers": Alias("max_producers"),
        "maxNumActiveConsumers": Alias("max_consumers"),
        "maxNumBackupConsumers": Alias(
            instead="consumers that subscribe with exclusive:true replace each other"
        ),
        "consumerFlowLimit": Alias(instead="each subscription has a credit, by default that of the broker"),
        "limitBehavior": Alias("limit_behavior"),
        "useDMQ": Alias("use_dead_letters"),
        "isLocalOnly": Alias("local_only"),
        "localDeliveryPreferred": Alias("prefer_local"),
    }
)
#: the value of limits there that is 0 here
GLASSFISH_UNLIMITED = "-1"


class Own(NamedTuple):
    """One row: values by name, and the version of the policy that wrote it."""

    values: Mapping[str, Any]
    version: int


class Effective(NamedTuple):
    """An effective value and its source: "own", a pattern, "node" or "default"."""

    value: Any
    source: str


@dataclass(frozen=True)
class Destinations:
    """All rows by address or pattern, and the values from the settings of the node (`node_values`)."""

    rows: Mapping[str, Own] = field(default_factory=dict)
    node: Mapping[str, Any] = field(default_factory=dict)

    def version(self, address: str) -> int:
        """The version of the row; 0 if there is none."""
        own = self.rows.get(address)
        return own.version if own is not None else 0

    def effective(self, address: str) -> dict[str, Effective]:
        """Every setting of a destination or pattern, with its source."""
        found = {name: Effective(setting.default, DEFAULT) for name, setting in SETTINGS.items()}
        for source, values in self._layers(address):
            found |= {name: Effective(value, source) for name, value in values.items() if name in SETTINGS}
        if is_pattern(address):
            return found
        policy = self.policies.of(address)
        for name, setting in SETTINGS.items():  # the core fixes some settings of dead letter queues
            value = getattr(policy, setting.field)
            if setting.to_policy(found[name].value) != value:
                found[name] = Effective(setting.from_policy(value), DEFAULT)
        return found

    @functools.cached_property
    def policies(self) -> Policies:
        """The same settings as policies of the core."""
        exact = {at: self._policy(at) for at in self.rows if not is_pattern(at)}
        prefixes = {at[:-1]: self._policy(at) for at in self._patterns if at != EVERYTHING}
        return Policies(self._policy(EVERYTHING), exact, prefixes)

    def _policy(self, address: str) -> DestinationPolicy:
        values: dict[str, Any] = {}
        for _source, layer in self._layers(address):
            values |= {
                SETTINGS[name].field: SETTINGS[name].to_policy(layer[name])
                for name in layer
                if name in SETTINGS
            }
        return DestinationPolicy(**values)

    def _layers(self, address: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """Yield (source, values) of all rows that apply to an address, the most specific last."""
        yield NODE, self.node
        name = address.removesuffix(">")
        for pattern in self._patterns:
            if name.startswith(pattern[:-1]) and pattern != address:
                yield pattern, self.rows[pattern].values
        if address in self.rows:
            yield OWN, self.rows[address].values

    @functools.cached_property
    def _patterns(self) -> list[str]:
        return sorted(filter(is_pattern, self.rows), key=len)


def node_values(config: Config) -> dict[str, Any]:
    """The settings of destinations that the node's settings override."""
    return {"max_attempts": config.max_attempts, "auto_create": config.auto_create_queues}


def is_pattern(address: str) -> bool:
    return address == EVERYTHING or address.endswith(("/>", ".>"))


def check_address(address: str) -> str:
    """Return `address` if it can have settings. Raises Refused with the reason otherwise."""
    if address == EVERYTHING:
        return address
    destination = parse(address)
    name = destination.name
    if destination.kind not in (QUEUE, TOPIC):
        raise Refused(
            "bad-destination", "only queues and topics have settings; temporary destinations have none"
        )
    if is_reserved(name):
        raise Refused("bad-destination", f"{address} is a name reserved for the broker")
    body = name[:-1] if is_pattern(address) else name
    if name.endswith(">") and not is_pattern(address):
        raise Refused(
            "bad-destination", f"in {address!r} the '>' must be a level of its own, as in 'orders.>'"
        )
    if destination.kind == TOPIC and has_wildcard(body):
        raise Refused(
            "bad-destination", f"{address!r} has a wildcard before its end; only '>' as last level is allowed"
        )
    return address


def faults(values: Mapping[str, Any], address: str) -> dict[str, str]:
    """Return the errors in values for `address`, by name; empty if all are valid."""
    found: dict[str, str] = {}
    for name, value in values.items():
        setting = SETTINGS.get(name)
        if setting is None:
            found[name] = _unknown(name)
        elif error := setting.error_in(value):
            found[name] = error
        elif name == "paused" and address.startswith("/topic/") and value not in ("none", "producers"):
            found[name] = "must be none or producers: a topic keeps no messages for paused consumers"
        elif name == "prefer_local" and value and address.startswith("/topic/"):
            found[name] = "must be false: a topic delivers to every subscriber"
        elif name == "prefer_local" and value and values.get("local_only") is True:
            found[name] = "must be false with local_only, where other brokers have no consumers"
    return found


def _unknown(name: str) -> str:
    alias = GLASSFISH.get(name)
    if alias is None:
        return f"there is no such setting{suggestion(name, (*SETTINGS, *GLASSFISH))}"
    if alias.instead:
        return f"is a name of GlassFish MQ without a setting here: {alias.instead}"
    unlimited = ", where 0 is no limit" if SETTINGS[alias.setting].kind is int else ""
    return f"is a name of GlassFish MQ: it is {alias.setting} here{unlimited}"


def _wrong_queue(value: Any) -> str:
    if not isinstance(value, str):
        return "must be the name of a queue"
    try:
        check_name(value or "x")
    except Refused as refusal:
        return refusal.detail
    return ""
