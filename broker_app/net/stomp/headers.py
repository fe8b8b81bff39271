"""The headers of SEND and SUBSCRIBE, with their names in other brokers (table in docs/protocol.md)."""

from __future__ import annotations

from collections.abc import Mapping

from broker_app.base.refused import Refused
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
from broker_app.core.message import DEFAULT_PRIORITY, Envelope
from broker_app.core.storage import dead_letter_headers
from broker_app.net.stomp import bridge_flows, header_names, scheduling_headers
from broker_app.net.stomp.header_names import SEND, SUBSCRIBE
from mom_client.stomp.encode import encode_headers

#: headers of a SEND that are not stored with the message
NOT_CARRIED = frozenset(
    (
        *("destination", "transaction", "origin-topic", "mom-flow"),
        *header_names.OF_MESSAGE,
        *dead_letter_headers.FACTS,
        *scheduling_headers.DELAYS,
    )
)
_TTL_MS = header_names.aliases(SEND, "ttl-s")
#: headers, in addition to persistent, that change how a message is handled
_MEANINGFUL = frozenset(
    ("priority", "expires", "ttl-s", *_TTL_MS, *scheduling_headers.NAMES, *header_names.CHECKED_OF_SEND)
)
_PRIORITY_NAMES = ("consumer-priority", *header_names.aliases(SUBSCRIBE, "consumer-priority"))
#: the largest priority of a consumer, and the least below zero: as much as RabbitMQ's clients send
_MAX_CONSUMER_PRIORITY = (1 << 31) - 1
#: Artemis counts bytes, Apollo both; this is the assumed size of a message
_WINDOW_NAME, _WINDOW_MESSAGE = "consumer-window-size", 1_024
_CREDIT_NAMES = ("credit", *(n for n in header_names.aliases(SUBSCRIBE, "credit") if n != _WINDOW_NAME))
#: credit for RabbitMQ's prefetch-count:0, which requests no limit
UNBOUNDED_CREDIT = 1_000
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
    # What a bridge forwards was accepted before.
    if not header_names.CHECKED_OF_SEND.isdisjoint(headers) and bridge_flows.FLOW not in headers:
        header_names.check(SEND, headers, destination)
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
    for name in _TTL_MS:
        if name in headers:
            return _number(headers, name, 0, MAX_TTL_S * 1000, 0)
    return 0


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
    if not _is_number(value, most) or int(value) < least:
        raise Refused(
            "invalid", f"header {name} is {value[:40]!r}; it must be a number from {least} to {most}"
        )
    return int(value)


def _is_number(value: str, most: int) -> bool:
    return value.isascii() and value.isdigit() and len(value) <= 19 and int(value) <= most


def requeue(headers: Mapping[str, str]) -> bool:
    """Return True if a NACK returns the message to its queue (the default), False if to the dead letters."""
    return _flag(headers, "requeue", True)


def keep_unsettled(headers: Mapping[str, str]) -> bool:
    """Return True if an UNSUBSCRIBE leaves what is unsettled with its connection."""
    return _flag(headers, "keep-unsettled", False)


def ack_mode(headers: Mapping[str, str]) -> str:
    mode = headers.get("ack", AUTO)
    if mode not in ACK_MODES:
        raise Refused("invalid", f"header ack is {mode[:40]!r}; it must be one of {', '.join(ACK_MODES)}")
    return mode


def credit(headers: Mapping[str, str], default: int, most: int) -> int:
    """Return the credit that a SUBSCRIBE requests. Raises Refused if it is out of range."""
    if "," in headers.get("credit", ""):
        return _credit_of_apollo(headers["credit"], most)
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


def _credit_of_apollo(value: str, most: int) -> int:
    """Return the credit of `<messages>,<bytes>`: Apollo delivers until both are used up. A third word `false`
    asks for no credit back."""
    messages, size, *rest = value.split(",")
    if not all(_is_number(one, 1 << 53) for one in (messages, size)) or rest not in ([], ["true"], ["false"]):
        raise Refused(
            "invalid", f"header credit is {value[:40]!r}; it must be <messages> or <messages>,<bytes>"
        )
    if rest == ["false"]:
        raise Refused(
            "unsupported", f"header credit is {value[:40]}: each ACK gives back what its message took"
        )
    return min(max(1, int(messages), int(size) // _WINDOW_MESSAGE), most)


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


def exclusive(headers: Mapping[str, str]) -> bool:
    """Return True if a SUBSCRIBE requests to be the only consumer that is served."""
    return _asked(headers, "exclusive")


def browser(headers: Mapping[str, str]) -> bool:
    """Return True if a SUBSCRIBE requests to be shown what waits, and to take nothing."""
    return _asked(headers, "browser")


def no_local(headers: Mapping[str, str]) -> bool:
    """Return True if a SUBSCRIBE requests not to be sent what its own connection publishes."""
    return _asked(headers, "no-local")


def _asked(headers: Mapping[str, str], own: str) -> bool:
    """Return True if a SUBSCRIBE has this header, or the first of its aliases, as true."""
    names = (own, *header_names.aliases(SUBSCRIBE, own))
    return next((_flag(headers, name, False) for name in names if name in headers), False)


def consumer_priority(headers: Mapping[str, str]) -> int:
    """Return the priority of the consumer that a SUBSCRIBE requests. Raises Refused if it is out of range."""
    name = next((name for name in _PRIORITY_NAMES if name in headers), None)
    if name is None:
        return 0
    value, most = headers[name], _MAX_CONSUMER_PRIORITY
    digits = value.removeprefix("-")
    if not (digits.isascii() and digits.isdigit()) or len(digits) > 10 or int(digits) > most:
        raise Refused(
            "invalid", f"header {name} is {value[:40]!r}; it must be a number from {-most} to {most}"
        )
    return int(value)


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
