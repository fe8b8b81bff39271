"""The headers that the broker adds to dead letters, at the end of their header block."""

from __future__ import annotations

from broker_app.core.header_block import escape, unescape

ORIGIN, ORIGIN_TOPIC = "origin", "origin-topic"
#: names of the headers that dead letters get, and lose when they are retried
FACTS = (
    ORIGIN,
    ORIGIN_TOPIC,
    "sent-at",
    *("dead-reason", "dead-detail", "dead-attempts", "dead-at", "dead-broker", "dead-consumer"),
)
#: those that do not change when a message is dead-lettered again
_KEPT = (ORIGIN, ORIGIN_TOPIC, "sent-at")

_PREFIXES = tuple(f"{name}:".encode() for name in FACTS)


def lines(facts: dict[str, str]) -> bytes:
    """`facts` as header lines in STOMP 1.2 escaping; empty ones are left out."""
    return b"".join(f"{name}:{escape(value)}\n".encode() for name, value in facts.items() if value)


def origin_of(block: bytes) -> str:
    """The address of the queue that a dead letter comes from, empty for other messages."""
    return _fact(block, ORIGIN)


def sent_to(block: bytes) -> str:
    """The topic that a dead letter of a durable subscription was sent to, empty for other messages."""
    return _fact(block, ORIGIN_TOPIC)


def marked(block: bytes, facts: dict[str, str]) -> bytes:
    """The block of a dead letter with these headers; its first origin and when it was sent do not change."""
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
    """The header block without the headers of a dead letter, and these headers."""
    if not any(prefix in block for prefix in _PREFIXES):
        return block, b""
    lines = [line + b"\n" for line in block.split(b"\n")[:-1]]
    alive = [line for line in lines if not line.startswith(_PREFIXES)]
    return b"".join(alive), b"".join(line for line in lines if line.startswith(_PREFIXES))
