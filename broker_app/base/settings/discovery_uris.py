"""Addresses of discovery, as users of ActiveMQ write them: how the brokers of a cluster find each other.

| URI                                           | meaning                                                  |
|-----------------------------------------------|----------------------------------------------------------|
| static:(tcp://b2:7676,tcp://b3:7676)          | these brokers                                            |
| multicast://default                           | brokers that announce themselves in the usual group      |
| multicast://239.1.2.3:6155?group=plant        | the same in another group, and only those of this name   |
| multicast://default?networkInterface=10.0.0.1 | the same by the network interface that has this address  |
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qsl, urlsplit

from broker_app.base.suggestions import suggestion

#: the address and the port that ActiveMQ calls `default`
DEFAULT_GROUP: Final = ("239.255.2.3", 6155)
_DEFAULT: Final = "default"
_PLAIN: Final = ("tcp", "nio")
_ENCRYPTED: Final = ("ssl", "tls", "nio+ssl")
#: options that ActiveMQ has and that change nothing: links are tried again each second, without an end
_WITHOUT_EFFECT: Final = frozenset(
    {
        "backOffMultiplier",
        "initialReconnectDelay",
        "keepAliveInterval",
        "maxReconnectAttempts",
        "maxReconnectDelay",
        "minConnectTime",
        "useExponentialBackOff",
        "useLocalHost",
    }
)
_GROUP, _INTERFACE = "group", "networkInterface"
_LAST_PORT: Final = 65535
_MOST_CHARACTERS: Final = 64


class MulticastGroup(NamedTuple):
    """An address of multicast, and the `name` of those that are found there. `interface` is the address of
    a network interface of this machine; empty: that which the operating system chooses."""

    host: str
    port: int
    name: str = _DEFAULT
    interface: str = ""


class MulticastSettings(NamedTuple):
    """The group to which this broker is announced, if any, and those that are listened to."""

    announces: MulticastGroup | None
    listens: tuple[MulticastGroup, ...]


class NetworkConnector(NamedTuple):
    """The brokers that one connects to: addresses HOST:PORT, and those in multicast groups. `encrypted` are
    those of the addresses that are to be reached over TLS."""

    brokers: tuple[str, ...]
    groups: tuple[MulticastGroup, ...]
    encrypted: tuple[str, ...]


def multicast_group(uri: str) -> MulticastGroup:
    """The group that a URI such as multicast://default names. Raises ValueError."""
    try:
        parts = urlsplit(uri)
        host, port = parts.hostname or "", parts.port
    except ValueError as error:
        raise ValueError(f"{uri!r} is no address: {error}") from None
    if parts.scheme != "multicast" or parts.path not in ("", "/") or not host:
        raise ValueError(
            f"{uri!r} is no address of multicast: write multicast://{_DEFAULT}, or multicast://239.1.2.3:6155"
        )
    options = _options(parts.query, (_GROUP, _INTERFACE))
    name, interface = options.get(_GROUP, _DEFAULT), options.get(_INTERFACE, "")
    if not 0 < len(name) <= _MOST_CHARACTERS:
        raise ValueError(f"{_GROUP} is a name of at most {_MOST_CHARACTERS} characters, not {name[:80]!r}")
    if interface and not is_ipv4(interface):
        raise ValueError(
            f"{_INTERFACE} is the IPv4 address of a network interface here, not {interface[:80]!r}"
        )
    if host == _DEFAULT:
        host, usual = DEFAULT_GROUP
        return MulticastGroup(host, port or usual, name, interface)
    if not is_ipv4(host) or not ipaddress.IPv4Address(host).is_multicast:
        raise ValueError(
            f"{host!r} is no IPv4 address of multicast, which are 224.0.0.0 to 239.255.255.255: write "
            f"multicast://{_DEFAULT}"
        )
    return MulticastGroup(host, port or DEFAULT_GROUP[1], name, interface)


def network_connector(text: str) -> NetworkConnector:
    """The brokers that a text of URIs names, which commas or blanks separate. Raises ValueError."""
    brokers: list[str] = []
    groups: list[MulticastGroup] = []
    encrypted: list[str] = []
    for uri in _split(text):
        scheme = uri.partition(":")[0].lower()
        if scheme == "static":
            for address, is_encrypted in _static(uri):
                brokers.append(address)
                encrypted += [address] if is_encrypted else []
        elif scheme == "multicast":
            groups.append(multicast_group(uri))
        else:
            raise ValueError(
                f"{uri[:80]!r} is no address of discovery: write static:(tcp://HOST:PORT,…) for brokers that "
                f"are known, or multicast://{_DEFAULT} for those that announce themselves"
            )
    return NetworkConnector(tuple(dict.fromkeys(brokers)), tuple(dict.fromkeys(groups)), tuple(encrypted))


def faults(values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The settings of discovery that are invalid, each with the reason."""
    try:
        if values.get("discovery_uri"):
            multicast_group(values["discovery_uri"])
    except ValueError as error:
        yield "discovery_uri", str(error)
    try:
        connector = network_connector(values.get("network_connector") or "")
    except ValueError as error:
        yield "network_connector", str(error)
        return
    if connector.encrypted and values.get("cluster_transport") != "tls":
        address = connector.encrypted[0]
        yield "network_connector", f"{address} is to be reached over TLS: set cluster_transport to tls"


def brokers(values: Mapping[str, Any]) -> tuple[str, ...]:
    """The addresses that `network_connector` names, HOST:PORT; none if it is invalid."""
    try:
        return network_connector(values.get("network_connector") or "").brokers
    except ValueError:
        return ()


def _static(uri: str) -> Iterator[tuple[str, bool]]:
    """The addresses in static:(tcp://b2:7676,…), each with whether it is to be reached over TLS."""
    inner, _, query = uri.partition(":")[2].removeprefix("//").partition(")")
    if not inner.startswith("(") or (query and not query.startswith("?")):
        raise ValueError(f"{uri[:80]!r} has no list in parentheses: write static:(tcp://HOST:PORT,…)")
    _options(query[1:], ())
    addresses = [part.strip() for part in inner[1:].split(",") if part.strip()]
    if not addresses:
        raise ValueError(f"{uri[:80]!r} names no broker: write static:(tcp://HOST:PORT,…)")
    for address in addresses:
        scheme, separator, host = address.partition("://")
        if not separator or scheme not in (*_PLAIN, *_ENCRYPTED):
            known = ", ".join(f"{one}://" for one in (*_PLAIN, *_ENCRYPTED))
            raise ValueError(f"{address[:80]!r} is no address of a broker: it begins with one of {known}")
        yield host.partition("?")[0].rstrip("/"), scheme in _ENCRYPTED


def _options(query: str, known: tuple[str, ...]) -> dict[str, str]:
    """The options in a query that have an effect. Raises ValueError for unknown ones."""
    given = dict(parse_qsl(query, keep_blank_values=True))
    for name in given:
        if name not in known and name not in _WITHOUT_EFFECT:
            near = suggestion(name, (*known, *sorted(_WITHOUT_EFFECT)))
            raise ValueError(f"there is no option {name[:80]!r} of discovery{near}")
    return {name: value for name, value in given.items() if name in known}


def _split(text: str) -> list[str]:
    """The parts between commas and blanks that are in no parentheses."""
    parts, depth = [""], 0
    for character in text:
        depth += (character == "(") - (character == ")")
        if not depth and character in ", \t":
            parts.append("")
        else:
            parts[-1] += character
    if depth:
        raise ValueError(f"the parentheses of {text[:80]!r} do not match")
    return [part for part in parts if part]


def is_ipv4(text: str) -> bool:
    """Return whether a text is an IPv4 address."""
    try:
        ipaddress.IPv4Address(text)
    except ValueError:
        return False
    return True
