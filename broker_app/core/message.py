"""Messages and what they share.

An `Envelope` holds what follows from a header block alone; producers send the same block again and
again, so thousands of messages point to one envelope. A `Message` adds body, position and time.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import NamedTuple

DEFAULT_PRIORITY = 4
# What a message costs in memory beside body and header block: the objects and their places in collections.
OVERHEAD_BYTES = 320


class Special(NamedTuple):
    """What few messages ask for. `delay_ms` counts from arrival, `due_ms` is absolute; `dedup_id` names
    repeats of one message, messages of one `group` go to one consumer at a time."""

    delay_ms: int = 0
    dedup_id: str = ""
    group: str = ""
    due_ms: int = 0

    @property
    def digest(self) -> bytes:
        """The dedup-id in 16 bytes."""
        return blake2b(self.dedup_id.encode(errors="surrogatepass"), digest_size=16).digest()

    @property
    def waits(self) -> bool:
        """Whether it may have to be kept until it is due."""
        return bool(self.delay_ms or self.due_ms)

    def due_at(self, now_ms: int) -> int:
        """When a message that arrives at `now_ms` is due."""
        return max(self.due_ms, now_ms + self.delay_ms)


class Envelope:
    """Immutable facts of messages that were sent with one header block.

    `address` is the full destination ("/queue/orders"), `block` the user's header lines in STOMP 1.2
    escaping, each ended by a newline. `expires_ms` is absolute, `ttl_ms` relative to arrival; 0 is never.
    `special` is None for nearly all, which take the short way through the core.
    `weight` is what a message with it takes in memory beside its body.
    `tail` and `tail_key` are a free place where a session keeps the rendered form of the block.
    """

    __slots__ = (
        "address",
        "block",
        "expires_ms",
        "persistent",
        "priority",
        "special",
        "tail",
        "tail_key",
        "ttl_ms",
        "weight",
    )

    def __init__(
        self,
        address: str,
        block: bytes = b"",
        *,
        persistent: bool = True,
        priority: int = DEFAULT_PRIORITY,
        ttl_ms: int = 0,
        expires_ms: int = 0,
        special: Special | None = None,
    ) -> None:
        self.address = address
        self.block = block
        self.weight = len(block) + OVERHEAD_BYTES
        self.persistent = persistent
        self.priority = priority
        self.ttl_ms = ttl_ms
        self.expires_ms = expires_ms
        self.special = special
        self.tail = b""
        self.tail_key: object = None

    def expiring(self, expires_ms: int) -> Envelope:
        """The same, ending at `expires_ms`."""
        return Envelope(
            self.address,
            self.block,
            persistent=self.persistent,
            priority=self.priority,
            expires_ms=expires_ms,
            special=self.special,
        )

    def ends_ms(self, from_ms: int) -> int:
        """When a message expires whose life begins at `from_ms`; 0 is never."""
        if not self.ttl_ms:
            return self.expires_ms
        by_ttl = from_ms + self.ttl_ms
        return min(by_ttl, self.expires_ms) if self.expires_ms else by_ttl


class Message:
    """One message. `position` is its place in the journal's order, `attempts` how often it was handed
    out and came back; `explicit_id` is set where the id does not follow from time and position."""

    __slots__ = (
        "attempts",
        "body",
        "envelope",
        "expires_ms",
        "explicit_id",
        "order",
        "position",
        "recorded",
        "time_ms",
    )

    def __init__(self, envelope: Envelope, body: bytes, position: int, time_ms: int, recorded: bool) -> None:
        self.envelope = envelope
        self.body = body
        self.position = position
        self.time_ms = time_ms
        #: whether the journal holds it: it is then acknowledged by a record
        self.recorded = recorded
        self.attempts = 0
        #: its place in its lane: growing, recorded or not, and the same again when it was out of memory
        self.order = 0
        self.explicit_id: bytes | None = None
        self.expires_ms = envelope.ends_ms(time_ms) if envelope.ttl_ms else envelope.expires_ms

    @property
    def size(self) -> int:
        return len(self.body) + self.envelope.weight


def group_of(message: Message) -> str:
    """The name of the message's group, empty when it has none."""
    special = message.envelope.special
    return special.group if special is not None else ""


class Duplicate(Message):
    """A repeat: the id, position and time of the message that came first. It was not stored."""

    __slots__ = ()


class MessageIds:
    """Makes message ids: UUIDv7 whose random bits are the broker's tag (26 bits) and the position (48).

    tttttttt-tttt-7ggg-vggg-pppppppppppp: t milliseconds, g tag, v variant and two bits of tag, p position.
    So an id sorts by time, is unique among brokers, and leads to its message without an index.
    """

    def __init__(self, tag: int) -> None:
        self._tag = tag & 0x3FFFFFF
        self._time_ms = -1
        self._prefix = b""

    def prefix(self, time_ms: int) -> bytes:
        """The first 24 characters, shared by all messages of one millisecond."""
        if time_ms != self._time_ms:
            time, tag = f"{time_ms:012x}", self._tag
            self._prefix = f"{time[:8]}-{time[8:]}-7{tag >> 14:03x}-{0x8000 | (tag & 0x3FFF):04x}-".encode()
            self._time_ms = time_ms
        return self._prefix

    def of(self, message: Message) -> bytes:
        return message.explicit_id or b"%b%012x" % (self.prefix(message.time_ms), message.position)

    def time_ms(self, message: Message) -> int:
        """When a message was first published, as far as its id tells."""
        own = message.explicit_id or b""
        if self.position(own.decode()) is None or own[14:15] != b"7":
            return message.time_ms
        return int(own[:8] + own[9:13], 16)

    @staticmethod
    def position(message_id: str) -> int | None:
        """The position that an id of this form carries, None for text of another form."""
        parts = message_id.split("-")
        if [len(part) for part in parts] != [8, 4, 4, 4, 12]:
            return None
        try:
            return int(parts[4], 16)
        except ValueError:
            return None
