"""Failover URIs: ``failover:(stomp://a:61613,ws://b:8000/ws)?timeout=3000``.

| form                                          | meaning                                                   |
|-----------------------------------------------|-----------------------------------------------------------|
| failover:(a,b)?options, failover://(a,b)?…    | a list that the broker may extend, with options           |
| failover:a,b                                  | the same without options                                  |
| static:(a,b)?options                          | a list that nothing changes                               |

`nested.` options are appended to the query of each address, and win over what it has there.
"""

import ipaddress
import urllib.parse
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from .failover_options import NESTED, FailoverOptions, is_option, options_of, split_query
from .pace import Pace
from .transport import check_address

__all__ = ["ConnectionRules", "FailoverUri", "check_listed", "is_failover", "parse"]

_SCHEMES = ("failover:", "static:")
#: what changes a list, and so makes no sense for a static one
_CHANGING = ("updateURIsSupported", "updateURIsURL", "rebalanceUpdateURIs", "reconnectSupported")


class ConnectionRules(NamedTuple):
    """Takes the place of options of failover about reconnecting. In an enhanced cluster the client always
    reconnects, with the pace `enhanced`. What is None is as in the arguments of `connect`."""

    pace: Pace
    enhanced: Pace
    reconnect: bool
    heart_beat_s: float
    connect_timeout_s: float | None


@dataclass(frozen=True)
class FailoverUri:
    """The parts of a failover URI; `static` if nothing changes its list. `rules` are those of a list that has
    other options."""

    addresses: tuple[str, ...]
    options: FailoverOptions
    nested: tuple[tuple[str, str], ...] = ()
    static: bool = False
    rules: ConnectionRules | None = None

    @property
    def send_timeout_s(self) -> float | None:
        """The time that the send of a message waits for a connection; None: for ever."""
        return None if self.options.timeout < 0 else self.options.timeout / 1000

    def with_nested(self, address: str) -> str:
        """`address` with the nested options in its query."""
        if not self.nested:
            return address
        parts = urllib.parse.urlsplit(address)
        given = urllib.parse.parse_qsl(parts.query, keep_blank_values=True)
        nested = dict(self.nested)
        own = [pair for pair in given if pair[0] not in nested]
        return parts._replace(query=urllib.parse.urlencode([*own, *self.nested])).geturl()


def is_failover(url: str) -> bool:
    """True if `url` is a failover URI rather than an address."""
    return url.strip().lower().startswith(_SCHEMES)


def parse(url: str) -> FailoverUri:
    """The parts of a failover URI. Raises ValueError saying what is wrong with it."""
    scheme, _, rest = url.strip().partition(":")
    static = scheme.lower() == "static"
    inner, query = _parts(rest.removeprefix("//"), url)
    addresses: list[str] = []
    for part in _split(inner):
        if is_failover(part):
            raise ValueError(f"a list within a list: write the addresses of {part[:80]!r} one by one")
        if part:
            addresses.append(check_listed(part))
    if not addresses:
        raise ValueError(f"{url[:80]!r} names no address: write {scheme.lower()}:(stomp://host:61613,…)")
    pairs = split_query(query)
    nested = tuple((name.removeprefix(NESTED), text) for name, text in pairs if name.startswith(NESTED))
    own = [pair for pair in pairs if not pair[0].startswith(NESTED)]
    options = options_of(FailoverOptions, own, "failover option", _CHANGING if static else ())
    for address in options.priority_uris:
        check_listed(address)
    return FailoverUri(tuple(dict.fromkeys(addresses)), options, nested, static)


def check_listed(address: str) -> str:
    """`address` itself. Raises ValueError saying why a client cannot connect to it."""
    check_address(address)
    host = urllib.parse.urlsplit(address).hostname or ""
    try:
        wildcard = ipaddress.ip_address(host).is_unspecified
    except ValueError:
        wildcard = host == "*"
    if wildcard:
        raise ValueError(
            f"{address}: {host} is where a broker listens, not where a client connects; "
            "write the name of its host, or 127.0.0.1"
        )
    return address


def _parts(rest: str, url: str) -> tuple[str, str]:
    """The addresses and the query."""
    if not rest.startswith("("):
        if "(" in rest or ")" in rest:
            raise ValueError(f"the parentheses of {url[:80]!r} do not match")
        _check_no_options(_split(rest))
        return rest, ""
    depth = end = 0
    while not end or depth:
        if end == len(rest):
            raise ValueError(f"the parentheses of {url[:80]!r} do not match")
        depth += (rest[end] == "(") - (rest[end] == ")")
        end += 1
    inner, tail = rest[1 : end - 1], rest[end:]
    if tail and not tail.startswith("?"):
        raise ValueError(f"{tail[:80]!r} follows the list: options begin with a question mark")
    return inner, tail[1:]


def _check_no_options(addresses: Sequence[str]) -> None:
    """Without parentheses a query is that of its address; an option there would go unnoticed."""
    for address in addresses:
        query = urllib.parse.urlsplit(address).query
        for name, value in urllib.parse.parse_qsl(query, keep_blank_values=True):
            if is_option(name):
                wanted = f"write failover:(…)?{name}={value[:80]}"
                raise ValueError(f"{name} would be an option of {address[:80]} only: {wanted}")


def _split(text: str) -> list[str]:
    """The parts between commas that are in no parentheses."""
    parts, depth = [""], 0
    for character in text:
        depth += (character == "(") - (character == ")")
        if character == "," and not depth:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts]
