"""Remote: the configuration of one bridge, independent of any database."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final

from broker_app.base.marked import mark as _
from broker_app.base.spec_members import SpecMember, member, members_of

#: the desired states of a bridge; draining forwards all messages, then pauses
RUNNING, PAUSED, DRAINING = DESIRED_STATES = ("running", "paused", "draining")
#: how a protocol begins an address of `mom_client.connection.transport`
_SCHEMES: Final = {"stomp": "stomp", "stomps": "stomp+tls", "ws": "ws", "wss": "wss"}
PROTOCOLS: Final = tuple(_SCHEMES)
#: fields that only a new connection can change
_CONNECTION_FIELDS: Final = "hostname port protocol path host user password ca_file config_error".split()


@dataclass(frozen=True, slots=True)
class Remote:
    """A remote broker and how its queues are to be forwarded. Times are in seconds.

    `hostname` may be a list, `b1,b2:61623`, of brokers that mirror each other: one of them is active.
    `host` is the virtual host to log in to, `path` that of a WebSocket, `ca_file` the trusted certificate
    authorities (empty: those of the system). `paused_queues` are the remote queues whose flows are paused
    while others run. A message refused `dead_letter_after` times becomes a dead letter (0: never).
    At most `window` messages of a flow are unconfirmed.
    """

    name: str
    hostname: str
    port: int = 61613
    protocol: str = "stomp"
    path: str = "/ws"
    host: str = "/"
    user: str = ""
    password: str = field(default="", repr=False)
    ca_file: str = ""
    desired: str = member(
        RUNNING,
        _("Desired state"),
        _("a draining bridge accepts no new messages, forwards those that wait, and then pauses"),
        choices={RUNNING: _("running"), PAUSED: _("paused"), DRAINING: _("draining")},
    )
    paused_queues: frozenset[str] = frozenset()
    retry_s: float = member(
        5.0, _("Retry interval"), _("seconds between two connection attempts"), least=0.1, most=3_600.0
    )
    idle_s: float = member(
        60.0,
        _("Idle timeout"),
        _("seconds without messages after which the bridge disconnects"),
        least=0.1,
        most=86_400.0,
    )
    scan_s: float = member(
        30.0,
        _("Scan interval"),
        _("seconds between two scans for messages that were missed"),
        least=0.1,
        most=60.0,
    )
    stalled_s: float = member(
        30.0,
        _("Response timeout"),
        _("seconds without a reply, while messages wait, after which the bridge reconnects"),
        least=0.1,
        most=86_400.0,
    )
    window: int = member(
        2000,
        _("Window"),
        _("messages of one queue that may be in flight without a confirmation"),
        least=1,
        most=10_000,
    )
    dead_letter_after: int = member(
        0,
        _("Dead-letter after"),
        _("refusals of a message after which it is dead-lettered; 0: never"),
        most=1_000_000,
    )
    #: the reason why the configuration is unusable; empty if it is usable
    config_error: str = ""

    @classmethod
    def of(cls, name: str, spec: Mapping[str, Any], password: str = "", *, config_error: str = "") -> Remote:
        """The remote of a spec; members that are not for the bridge are ignored. Raises TypeError without a
        `hostname`."""
        known = {key: value for key, value in spec.items() if key in _FIELDS}
        known["paused_queues"] = frozenset(spec.get("paused_queues", ()))
        return cls(name, password=password, config_error=config_error, **known)

    @property
    def alternatives(self) -> tuple[Remote, ...]:
        """The same with one of the hosts each. Raises ValueError for a port that is no number."""
        if "," not in self.hostname:
            return (self,)
        places = [_host_and_port(place.strip(), self.port) for place in self.hostname.split(",")]
        return tuple(replace(self, hostname=hostname, port=port) for hostname, port in places)

    @property
    def address(self) -> str:
        """The address for `mom_client.connection.transport`, without credentials."""
        hostname = f"[{self.hostname}]" if ":" in self.hostname else self.hostname
        path = "/" + self.path.lstrip("/") if self.protocol in ("ws", "wss") else ""
        return f"{_SCHEMES[self.protocol]}://{hostname}:{self.port}{path}"

    @property
    def uses_tls(self) -> bool:
        return self.protocol in ("stomps", "wss")

    def has_same_connection(self, other: Remote) -> bool:
        """True if a connection that was made for one serves the other."""
        return all(getattr(self, name) == getattr(other, name) for name in _CONNECTION_FIELDS)


def _host_and_port(place: str, default: int) -> tuple[str, int]:
    """Host and port of `HOST`, `HOST:PORT`, an IPv6 address, or `[IPv6]:PORT`."""
    host, colon, port = place.rpartition(":")
    if place.endswith("]") or not colon or (":" in host and not host.endswith("]")):
        host, port = place, str(default)
    return host.strip("[]"), int(port)


#: members that are not part of the spec
_NOT_IN_SPEC: Final = {"name", "password", "paused_queues", "config_error"}
#: by name, and the default of each
MEMBERS: Final[Mapping[str, tuple[SpecMember, Any]]] = members_of(Remote)
_FIELDS: Final = frozenset(one.name for one in fields(Remote)) - _NOT_IN_SPEC
