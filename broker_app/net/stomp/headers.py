"""The headers of SEND and SUBSCRIBE, with their names in other brokers (table in docs/protocol.md)."""

from __future__ import annotations

from collections.abc import Mapping

from broker_app.core import dead_letter_headers
from broker_app.core.commands import ACK_MODES, AUTO
from broker_app.core.destination import (
    QUEUE,
    TEMP_QUEUE,
    TEMP_TOPIC,
    TOPIC,
    Destination,
    is_reserved,
    parse,
)
from broker_app.core.errors import Refused
from broker_app.core.message import DEFAULT_PRIORITY, Envelope
from broker_app.net.stomp import scheduling_headers
from mom_client.stomp.encode import encode_headers

#: headers of a SEND that are not stored with the message
NOT_CARRIED = frozenset(
    (
        *("destination", "transaction", "message-id", "subscription", "ack", "redelivered", "timestamp"),
        *(
            "attempt",
            "seq",
            "origin-topic",
            "mom-flow",
            *dead_letter_headers.FACTS,
            *scheduling_headers.DELAYS,
        ),
    )
)
#: headers, in addition to persistent, that change how a message is handled
_MEANINGFUL = frozenset(
    ("priority", "expires", "ttl-s", "expiration", "x-message-ttl", *scheduling_headers.NAMES)
)
_CREDIT_NAMES = ("credit", "prefetch-count", "activemq.prefetchSize")
#: Artemis counts bytes; this is the assumed size of a message
_WINDOW_NAME, _WINDOW_MESSAGE = "consumer-window-size", 1_024
#: credit for RabbitMQ's prefetch-count:0, which requests no limit
UNBOUNDED_CREDIT = 1_000
#: headers of SUBSCRIBE in other brokers that change what comes, and is taken; `true` is refused
UNSUPPORTED = {
    "browser": "browsers over STOMP; REST and `mom browse` look at messages without taking them",
    "no-local": "subscriptions without the own messages",
    "activemq.noLocal": "subscriptions without the own messages",
}
#: where a replay begins in the words of RabbitMQ's streams
_STREAM_OFFSET = "x-stream-offset"
_STARTS = {"first": "first", "last": "last", "next": "now"}
_STARTS_AT = {"offset": "seq", "timestamp": "time"}
_TRUE, _FALSE = ("true", "1"), ("false", "0", "")
#: longest time to live of a message: 100 years
MAX_TTL_S = 3_153_600_000


def envelope(headers: Mapping[str, str], destination: Destination, reply_to: str | None = None) -> Envelope:
    """The envelope of a SEND to `destination`; `reply_to` replaces the header of that name."""
    persistent = destination.kind in (QUEUE, TOPIC)  # on a topic it matters to durable subscriptions
    if "persistent" in headers:
        persistent = _flag(headers, "persistent", persistent)
    lines = [(name, value) for name, value in headers.items() if name not in NOT_CARRIED]
    if reply_to is not None:
        lines = [(name, reply_to if name == "reply-to" else value) for name, value in lines]
    block = encode_headers(lines)
    if _MEANINGFUL.isdisjoint(headers):  # nearly always
        return Envelope(destination.address, block, persistent=persistent)
    return Envelope(
        destination.address,
        block,
        persistent=persistent,
        priority=_number(headers, "priority", 0, 9, DEFAULT_PRIORITY),
        ttl_ms=_ttl_ms(headers),
        expires_ms=_number(headers, "expires", 0, scheduling_headers.LATEST_MS, 0),
        options=scheduling_headers.options(headers),
    )


def _ttl_ms(headers: Mapping[str, str]) -> int:
    if "ttl-s" in headers:
        try:
            seconds = float(headers["ttl-s"])
        except ValueError:
            seconds = -1.0
        if not 0 <= seconds <= MAX_TTL_S:
            raise Refused(
                "invalid",
                f"header ttl-s is {headers['ttl-s'][:40]!r}; it must be seconds from 0 to {MAX_TTL_S}",
            )
        return int(seconds * 1000)
    name = "expiration" if "expiration" in headers else "x-message-ttl"
    return _number(headers, name, 0, MAX_TTL_S * 1000, 0)


def _flag(headers: Mapping[str, str], name: str, default: bool) -> bool:
    value = headers.get(name)
    if value is None:
        return default
    if value.lower() not in _TRUE + _FALSE:
        raise Refused("invalid", f"header {name} is {value!r}; it must be true or false")
    return value.lower() in _TRUE


def _number(headers: Mapping[str, str], name: str, least: int, most: int, default: int) -> int:
    value = headers.get(name)
    if value is None:
        return default
    if not (value.isascii() and value.isdigit()) or len(value) > 19 or not least <= int(value) <= most:
        raise Refused(
            "invalid", f"header {name} is {value[:40]!r}; it must be a number from {least} to {most}"
        )
    return int(value)


def requeue(headers: Mapping[str, str]) -> bool:
    """Return True if a NACK returns the message to its queue (the default), False if to the dead letters."""
    return _flag(headers, "requeue", True)


def ack_mode(headers: Mapping[str, str]) -> str:
    mode = headers.get("ack", AUTO)
    if mode not in ACK_MODES:
        raise Refused("invalid", f"header ack is {mode[:40]!r}; it must be one of {', '.join(ACK_MODES)}")
    return mode


def credit(headers: Mapping[str, str], default: int, most: int) -> int:
    """Return the credit that a SUBSCRIBE requests. Raises Refused if it is out of range."""
    for name in _CREDIT_NAMES:
        if name in headers:
            requested = _number(headers, name, 0 if name == "prefetch-count" else 1, most, default)
            return requested or UNBOUNDED_CREDIT
    window = headers.get(_WINDOW_NAME)
    if window == "-1":
        return UNBOUNDED_CREDIT
    if window is not None:
        size = _number(headers, _WINDOW_NAME, 0, 1 << 53, 0)
        return min(max(1, size // _WINDOW_MESSAGE), most)
    return default


def snapshot(headers: Mapping[str, str], destination: Destination) -> bool:
    """Return True if a SUBSCRIBE requests the current state first, which only system topics have."""
    requested = _flag(headers, "snapshot", False)
    if requested and not (destination.kind == TOPIC and is_reserved(destination.name)):
        raise Refused("unsupported", "header snapshot: only system topics (below $mom) have a state")
    return requested


def start(headers: Mapping[str, str]) -> str:
    """Return where in the history of a topic a SUBSCRIBE requests to begin, in the words of `from`; empty if
    it does not. Raises Refused."""
    if "from" in headers:
        return headers["from"]
    offset = headers.get(_STREAM_OFFSET)
    if offset is None:
        return "first" if _flag(headers, "activemq.retroactive", False) else ""
    kind, _, at = offset.partition("=")
    if offset in _STARTS:
        return _STARTS[offset]
    if kind not in _STARTS_AT or not at:
        known = "first, last, next, offset=<number> or timestamp=<time>"
        raise Refused("invalid", f"header {_STREAM_OFFSET} is {offset[:40]!r}; it must be {known}")
    return f"{_STARTS_AT[kind]}:{at}"


def check_supported(headers: Mapping[str, str]) -> None:
    """Refuse a SUBSCRIBE that requests what is not there. Raises Refused."""
    for name, what in UNSUPPORTED.items():
        if name in headers and _flag(headers, name, False):
            raise Refused("unsupported", f"header {name}: this version of MOM has no {what}")


def exclusive(headers: Mapping[str, str]) -> bool:
    """Return True if a SUBSCRIBE requests to be the only consumer that is served."""
    return _flag(headers, "exclusive", _flag(headers, "activemq.exclusive", False))


class PrivateNames:
    """The temporary destinations of one session: the client's `/temp-queue/x` has a name for all others that
    cannot be guessed."""

    MARK = "t-"

    def __init__(self, secret: str) -> None:
        self._prefix = f"{self.MARK}{secret}."

    def resolve(self, address: str) -> Destination:
        """Return the destination that `address` means in this session."""
        destination = parse(address)
        if destination.kind in (TEMP_QUEUE, TEMP_TOPIC) and not destination.name.startswith(self.MARK):
            return parse(f"/{destination.kind}/{self._prefix}{destination.name}")
        return destination

    def owns(self, destination: Destination) -> bool:
        return destination.name.startswith(self._prefix)
