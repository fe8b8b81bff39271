"""Facts: what a condition may ask for, and what a comparison with each of them means."""

from __future__ import annotations

import difflib
import ipaddress
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from operator import itemgetter
from typing import Literal

from broker_app.core.topics.topic import matches
from broker_app.rules.event import PROTOCOLS, RIGHTS, Event, is_wild
from broker_app.rules.expression import Expression

Operator = Literal["==", "!=", "=~"]
EQUAL: Operator = "=="
FITS: Operator = "=~"

# a value that needs no quotes
_PLAIN = re.compile(r"[\w.:/@*-]+")

Test = Callable[[Event], bool]

FACTS = ("queue", "topic", "method", "user", "group", "address", "protocol", "tls", "client")
#: how conditions spell them
PATHS = {f"/event/{fact}": fact for fact in FACTS}

#: the values that a fact can have, where they are few
_CHOICES = {"method": tuple(RIGHTS), "protocol": PROTOCOLS, "tls": ("true", "false")}


@dataclass(frozen=True, slots=True)
class Comparison:
    """`/event/<fact> <operator> <value>`. `test` evaluates it for an event without wildcards."""

    fact: str
    operator: Operator
    value: str
    test: Test = field(compare=False, repr=False)
    expression: Expression | None = field(default=None, compare=False, repr=False)

    def judge(self, event: Event) -> bool | None:
        """True if it holds for everything the event stands for, False for nothing of it, None for some."""
        if self.fact != "topic" or event.topic is None or not is_wild(event.topic):
            return self.test(event)
        if self.expression is not None:
            return self.expression.certainty(event.topic)
        if self.value == event.topic:  # it names the very pattern
            same: bool | None = True
        else:
            same = None if matches(event.topic, self.value) else False
        return same if self.operator == EQUAL or same is None else not same

    def __str__(self) -> str:
        plain = _PLAIN.fullmatch(self.value) is not None
        value = self.value if plain else "'" + re.sub(r"(['\\])", r"\\\1", self.value) + "'"
        return f"/event/{self.fact} {self.operator} {value}"


def comparison(fact: str, operator: Operator, value: str) -> Comparison:
    """A comparison of a known fact. Raises ValueError with a sentence where `value` cannot be meant."""
    if operator == FITS:
        if fact == "tls":
            raise ValueError("/event/tls is true or false; compare it with ==")
        expression = Expression(value)
        return Comparison(fact, operator, value, _fits(fact, expression), expression)
    equal = operator == EQUAL
    if fact in _CHOICES and value not in _CHOICES[fact]:
        known = _CHOICES[fact]
        near = [choice for choice in known if choice.lower() == value.lower()] or near_to(value, known)
        suggestion = f"did you mean {near[0]}? It" if near else "it"
        raise ValueError(f"/event/{fact} is never {value[:40]!r}; {suggestion} can be {', '.join(known)}")
    match fact:
        case "address":
            test = _within(_network(value), equal)
        case "group":
            test = _member(value, equal)
        case "tls":
            test = _encrypted((value == "true") is equal)
        case "queue" | "topic" if value.startswith(f"/{fact}/"):
            raise ValueError(f"names stand without /{fact}/ here: {value.removeprefix(f'/{fact}/')[:40]}")
        case _:
            test = _same(Event._fields.index(fact), value, equal)
    return Comparison(fact, operator, value, test)


def near_to(word: str, known: tuple[str, ...]) -> list[str]:
    """At most one of `known` that looks like `word`."""
    return difflib.get_close_matches(word, known, 1)


def _same(at: int, value: str, equal: bool) -> Test:
    if equal:
        return lambda event: event[at] == value
    return lambda event: event[at] is not None and event[at] != value


def _member(group: str, equal: bool) -> Test:
    # The groups of a user are always known, even if there are none: != means not in the group.
    if equal:
        return lambda event: group in event.groups
    return lambda event: group not in event.groups


def _encrypted(wanted: bool) -> Test:
    return lambda event: event.tls is wanted


def _fits(fact: str, expression: Expression) -> Test:
    matches_ = expression.matches
    if fact == "group":
        return lambda event: any(map(matches_, event.groups))
    at = Event._fields.index(fact)
    get = itemgetter(at)

    def test(event: Event) -> bool:
        value = get(event)
        return value is not None and matches_(value)

    return test


_Network = ipaddress.IPv4Network | ipaddress.IPv6Network


def _network(text: str) -> _Network:
    try:
        return ipaddress.ip_network(text)
    except ValueError:
        pass
    try:
        suggestion = f"; did you mean {ipaddress.ip_network(text, strict=False)}?"
    except ValueError:
        suggestion = ", like 10.1.2.3, 10.0.0.0/8 or fd00::/8"
    raise ValueError(f"{text[:60]!r} is neither an IP address nor a network{suggestion}")


def _within(network: _Network, equal: bool) -> Test:
    version, mask, number = network.version, int(network.netmask), int(network.network_address)

    def test(event: Event) -> bool:
        found = None if event.address is None else _numbered(event.address)
        return found is not None and (found[0] == version and found[1] & mask == number) is equal

    return test


@lru_cache(maxsize=16_384)
def _numbered(address: str) -> tuple[int, int] | None:
    """Version and number of an IP address; None where the text is none."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return None
    if isinstance(parsed, ipaddress.IPv6Address) and parsed.ipv4_mapped:
        parsed = parsed.ipv4_mapped
    return parsed.version, int(parsed)
