"""Settings of destinations: what an administrator can say about one, and the policies that follow.

A row holds what was said about one address ("/queue/orders"), about all that a pattern covers
("/queue/orders.>") or about everything (">"). Each value of a destination is taken from its own row, else
from the longest pattern that has it, else from the node's settings, else it is the default of the core.
"""

from __future__ import annotations

import difflib
import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple

from broker_app.config import Config
from broker_app.core.destination import QUEUE, TOPIC, check_name, has_wildcard, is_reserved, parse
from broker_app.core.errors import Refused
from broker_app.core.policy import LIMIT_BEHAVIORS, PAUSES, DestinationPolicy, Policies

EVERYTHING = ">"
OWN, NODE, DEFAULT = "own", "node", "default"

_MOST = 2**53 - 1  # what every JSON reader takes for a whole number
_YEAR_S = 366 * 86_400


class Setting(NamedTuple):
    """One row of the table. `name` is that of REST, of the command line and of the database, `field` that of
    the policy; `scale` makes the one out of the other, seconds into milliseconds."""

    name: str
    field: str
    kind: type
    about: str
    least: float = 0
    most: float = _MOST
    choices: tuple[str, ...] = ()
    scale: int = 1

    @property
    def default(self) -> Any:
        return self.shown(getattr(_DEFAULT, self.field))

    def shown(self, value: Any) -> Any:
        """A value of the policy as it is said."""
        return value / self.scale if self.scale != 1 else value

    def meant(self, value: Any) -> Any:
        """What was said as a value of the policy."""
        return round(value * self.scale) if self.scale != 1 else self.kind(value)

    def wrong(self, value: Any) -> str:
        """What is wrong with a value; empty when nothing is."""
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


def _whole(name: str, about: str, least: int = 0, most: int = _MOST) -> Setting:
    return Setting(name, name, int, about, least, most)


def _seconds(name: str, about: str, most: float = 10 * _YEAR_S) -> Setting:
    return Setting(f"{name}_s", f"{name}_ms", float, about, 0, most, scale=1000)


def _truth(name: str, about: str) -> Setting:
    return Setting(name, name, bool, about)


_DEFAULT = DestinationPolicy()
SETTINGS: Mapping[str, Setting] = MappingProxyType(
    {
        setting.name: setting
        for setting in (
            _whole("max_messages", "messages it may hold; 0 is no limit"),
            _whole("max_bytes", "bytes of bodies it may hold; 0 is no limit"),
            _whole("max_message_bytes", "bytes of one body; 0 is no limit"),
            _whole("max_producers", "sessions that may send to it; 0 is no limit"),
            _whole("max_consumers", "subscriptions it may have; 0 is no limit"),
            Setting(
                "limit_behavior", "limit_behavior", str, "what happens at a limit", choices=LIMIT_BEHAVIORS
            ),
            _whole("max_attempts", "deliveries that may come back before a message is dead", 1, 1_000_000),
            _seconds("retry_delay", "wait before a message that came back is given out again"),
            Setting(
                "retry_factor", "retry_factor", float, "how much longer each such wait is", least=1, most=100
            ),
            _seconds("max_retry_delay", "longest such wait"),
            Setting(
                "dead_letters",
                "dead_letters",
                str,
                "queue of its dead letters; empty is its name and .dead",
            ),
            _truth("dead_letter_expired", "whether expired messages become dead letters"),
            _truth("use_dead_letters", "whether there are dead letters; without, they are discarded"),
            _seconds("dedup_window", "how long a dedup-id is remembered"),
            _seconds("retention", "how long a topic's history is kept for replay; 0 is none"),
            _whole("retention_bytes", "bytes of a topic's history kept for replay; 0 is no limit"),
            _seconds(
                "slow_consumer", "a consumer that takes nothing for so long is disconnected; 0 is never"
            ),
            _truth("auto_create", "whether queues are made by their first use"),
            Setting("paused", "paused", str, "who is held back", choices=PAUSES),
        )
    }
)


class Own(NamedTuple):
    """What one row says: values by name, and the version of the policy that wrote it."""

    values: Mapping[str, Any]
    version: int


class Effective(NamedTuple):
    """A value that holds, and where it is from: "own", a pattern, "node" or "default"."""

    value: Any
    source: str


@dataclass(frozen=True)
class Destinations:
    """All rows by address or pattern, and the values that the node's settings give (`node_values`)."""

    rows: Mapping[str, Own] = field(default_factory=dict)
    node: Mapping[str, Any] = field(default_factory=dict)

    def version(self, address: str) -> int:
        """That of the row; 0 when there is none."""
        own = self.rows.get(address)
        return own.version if own is not None else 0

    def effective(self, address: str) -> dict[str, Effective]:
        """Every setting of a destination, or what a pattern leads to."""
        found = {name: Effective(setting.default, DEFAULT) for name, setting in SETTINGS.items()}
        for source, values in self._layers(address):
            found |= {name: Effective(value, source) for name, value in values.items() if name in SETTINGS}
        if is_pattern(address):
            return found
        policy = self.policies.of(address)
        for name, setting in SETTINGS.items():  # of dead letters, the core has some things its own way
            value = getattr(policy, setting.field)
            if setting.meant(found[name].value) != value:
                found[name] = Effective(setting.shown(value), DEFAULT)
        return found

    @functools.cached_property
    def policies(self) -> Policies:
        """What the core is to know of them."""
        exact = {at: self._policy(at) for at in self.rows if not is_pattern(at)}
        prefixes = {at[:-1]: self._policy(at) for at in self._patterns if at != EVERYTHING}
        return Policies(self._policy(EVERYTHING), exact, prefixes)

    def _policy(self, address: str) -> DestinationPolicy:
        values: dict[str, Any] = {}
        for _, said in self._layers(address):
            values |= {
                SETTINGS[name].field: SETTINGS[name].meant(said[name]) for name in said if name in SETTINGS
            }
        return DestinationPolicy(**values)

    def _layers(self, address: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """(source, values) of all that says something about an address, the nearest last."""
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
    """The settings of destinations that settings of the node give, in the place of the core's defaults."""
    return {"max_attempts": config.max_attempts}


def is_pattern(address: str) -> bool:
    return address == EVERYTHING or address.endswith(("/>", ".>"))


def check_address(address: str) -> str:
    """`address` itself when settings can be said about it. Raises Refused that says why not."""
    if address == EVERYTHING:
        return address
    destination = parse(address)
    name = destination.name
    if destination.kind not in (QUEUE, TOPIC):
        raise Refused("bad-destination", "settings are those of queues and topics; temporary ones have none")
    if is_reserved(name):
        raise Refused("bad-destination", f"{address} is the broker's own")
    body = name[:-1] if is_pattern(address) else name
    if name.endswith(">") and not is_pattern(address):
        raise Refused("bad-destination", f"in {address!r} the '>' has to be a level of its own")
    if destination.kind == TOPIC and has_wildcard(body):
        raise Refused("bad-destination", f"{address!r} has a wildcard before its end")
    return address


def faults(values: Mapping[str, Any], address: str) -> dict[str, str]:
    """What is wrong with values said about `address`, by name; empty when nothing is."""
    found: dict[str, str] = {}
    for name, value in values.items():
        setting = SETTINGS.get(name)
        if setting is None:
            found[name] = f"there is no such setting{_suggestion(name)}"
        elif wrong := setting.wrong(value):
            found[name] = wrong
        elif name == "paused" and address.startswith("/topic/") and value not in ("none", "producers"):
            found[name] = "must be none or producers: what consumers of a topic do not get is gone"
    return found


def _suggestion(name: str) -> str:
    near = difflib.get_close_matches(name, SETTINGS, n=1)
    return f"; did you mean {near[0]}?" if near else ""


def _wrong_queue(value: Any) -> str:
    if not isinstance(value, str):
        return "must be the name of a queue"
    try:
        check_name(value or "x")
    except Refused as refusal:
        return refusal.detail
    return ""
