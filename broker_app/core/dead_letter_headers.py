"""What a dead letter says of itself: header lines that the broker adds at the end of its block."""

from __future__ import annotations

from broker_app.core.block import escape, unescape

ORIGIN, ORIGIN_TOPIC = "origin", "origin-topic"
#: names of the headers that a message gets when it dies and loses when it is retried
FACTS = (
    ORIGIN,
    ORIGIN_TOPIC,
    "sent-at",
    *("dead-reason", "dead-detail", "dead-attempts", "dead-at", "dead-consumer"),
)
#: those that stay as they were when a message dies again
_KEPT = (ORIGIN, ORIGIN_TOPIC, "sent-at")

_PREFIXES = tuple(f"{name}:".encode() for name in FACTS)


def lines(facts: dict[str, str]) -> bytes:
    """`facts` as header lines in STOMP 1.2 escaping; empty ones are left out."""
    return b"".join(f"{name}:{escape(value)}\n".encode() for name, value in facts.items() if value)


def origin_of(block: bytes) -> str:
    """The address where a dead letter died, empty for a message that is none."""
    return _fact(block, ORIGIN)


def sent_to(block: bytes) -> str:
    """The topic that a dead letter of a durable subscription was sent to, empty for other messages."""
    return _fact(block, ORIGIN_TOPIC)


def marked(block: bytes, facts: dict[str, str]) -> bytes:
    """The block of a message that dies with these facts; where it died first, and when it was sent, stays."""
    alive, former = divide(block)
    kept = {name: _fact(former, name) for name in _KEPT} if former else {}
    return alive + lines(facts | {name: value for name, value in kept.items() if value})


def _fact(block: bytes, name: str) -> str:
    prefix = f"{name}:".encode()
    for line in block.split(b"\n"):
        if line.startswith(prefix):
            return unescape(line[len(prefix) :].decode())
    return ""


def divide(block: bytes) -> tuple[bytes, bytes]:
    """The header block as it was before the message died, and the lines that it got then."""
    if not any(prefix in block for prefix in _PREFIXES):
        return block, b""
    lines = [line + b"\n" for line in block.split(b"\n")[:-1]]
    alive = [line for line in lines if not line.startswith(_PREFIXES)]
    return b"".join(alive), b"".join(line for line in lines if line.startswith(_PREFIXES))
