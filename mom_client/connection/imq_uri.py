"""Address lists of GlassFish MQ: ``imqAddressList=mqtcp://a:61613/jms,stomp://b:61613&imqReconnectEnabled=true``.

| address                    | here                                                     |
|----------------------------|----------------------------------------------------------|
| mq://host, mq://host/jms   | stomp://host:61613                                       |
| mq://host/ssljms           | stomp+tls://host:61614                                   |
| mqtcp://host:port/service  | stomp://host:port                                        |
| mqssl://host:port/service  | stomp+tls://host:port                                    |
| stomp://host:port, …       | the same, see `mom_client.connection.transport`          |

In an enhanced cluster, which the broker reports at login, the client always reconnects, goes through the list
without end, and the broker keeps the list up to date.
"""

import dataclasses
import urllib.parse
from dataclasses import dataclass

from .failover_options import FailoverOptions, option, options_of, split_query
from .failover_uri import ConnectionRules, FailoverUri, check_listed
from .pace import Pace

__all__ = ["ImqOptions", "is_imq", "parse"]

ADDRESS_LIST = "imqAddressList"
_PORT_MAPPER = "mq"
_SCHEMES = {"mqtcp": "stomp", "mqssl": "stomp+tls"}
_SERVICES = {"": "mqtcp", "jms": "mqtcp", "ssljms": "mqssl"}


@dataclass(frozen=True)
class ImqOptions:
    """The values of one list, as users of GlassFish MQ know them."""

    behavior: str = option(
        "imqAddressListBehavior",
        "PRIORITY",
        "PRIORITY: in the order of the list; RANDOM: shuffled",
    )
    iterations: int = option(
        "imqAddressListIterations", 1, "passes through the list before the client gives up; 0 or less: no end"
    )
    reconnect: bool = option("imqReconnectEnabled", False, "reconnect after a connection was lost")
    attempts: int = option(
        "imqReconnectAttempts",
        0,
        "attempts at an address before the next; 0: one; -1: no end",
        -1,
    )
    interval: float = option("imqReconnectInterval", 3000.0, "ms between two attempts", 0)
    ping_interval: int = option(
        "imqPingInterval", 30, "seconds between heart-beats of each side; 0 or less: none"
    )
    connect_timeout: float = option(
        "imqSocketConnectTimeout", 0.0, "ms for an attempt, login included; 0: `connect_timeout_s`", 0
    )


def is_imq(url: str) -> bool:
    """Return whether `url` is an address list of GlassFish MQ."""
    return f"{ADDRESS_LIST}=" in url and url.strip().startswith("imq")


def parse(url: str) -> FailoverUri:
    """The parts of an address list. Raises ValueError saying what is wrong with it."""
    pairs = split_query(url.strip())
    listed = next((text for name, text in pairs if name == ADDRESS_LIST), "")
    addresses = [_address(part.strip()) for part in listed.split(",") if part.strip()]
    if not addresses:
        raise ValueError(f"{url[:80]!r} names no address: write {ADDRESS_LIST}=stomp://host:61613,…")
    options = options_of(ImqOptions, [pair for pair in pairs if pair[0] != ADDRESS_LIST], "imq option")
    if options.behavior not in ("PRIORITY", "RANDOM"):
        raise ValueError(f"imqAddressListBehavior is PRIORITY or RANDOM, not {options.behavior[:80]!r}")
    return FailoverUri(tuple(dict.fromkeys(addresses)), FailoverOptions(), rules=_rules(options))


def _rules(options: ImqOptions) -> ConnectionRules:
    sweeps = options.iterations if options.iterations > 0 else None
    interval_s = options.interval / 1000
    pace = Pace(
        first_delay_s=0.0,
        max_delay_s=0.0,
        jitter=0.0,
        startup_sweeps=sweeps,
        sweeps=sweeps,
        shuffle=options.behavior == "RANDOM",
        failed_last=False,
        attempts=None if options.attempts < 0 else max(1, options.attempts),
        pause_s=interval_s,
    )
    # Attempts at the first address alone would miss the broker that takes over.
    enhanced = dataclasses.replace(pace, sweeps=None, failed_last=True, attempts=pace.attempts or 1)
    return ConnectionRules(
        pace,
        enhanced,
        reconnect=options.reconnect,
        heart_beat_s=max(0.0, options.ping_interval),
        connect_timeout_s=options.connect_timeout / 1000 or None,
    )


def _address(text: str) -> str:
    """The address of a broker here. Raises ValueError."""
    try:
        parts = urllib.parse.urlsplit(text)
        host, port = parts.hostname or "", parts.port
    except ValueError as error:
        raise ValueError(f"the address {text[:80]!r} cannot be read: {error}") from None
    scheme, service = parts.scheme, parts.path.strip("/")
    if scheme == _PORT_MAPPER:
        if port is not None:
            raise ValueError(
                f"{text[:80]}: the port of mq:// is that of a port mapper, which MOM has not: write "
                f"mq://{host}, "
                f"or stomp://{host}:PORT with the port of STOMP"
            )
        if service not in _SERVICES:
            raise ValueError(
                f"{text[:80]}: there is no service {service[:80]!r}; write jms, or ssljms for TLS"
            )
        scheme = _SERVICES[service]
    if scheme in _SCHEMES:
        host = f"[{host}]" if ":" in host else host
        usual = 61613 if scheme == "mqtcp" else 61614
        return check_listed(f"{_SCHEMES[scheme]}://{host}:{port or usual}")
    return check_listed(text)
