"""Messages and envelopes.

An `Envelope` is the data that follows from a header block alone; producers send the same block repeatedly,
so thousands of messages share one envelope. A `Message` adds body, position and time.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Any, NamedTuple

DEFAULT_PRIORITY = 4
# Memory of a message in addition to body and header block: objects and their places in collections.
OVERHEAD_BYTES = 320


class DeliveryOptions(NamedTuple):
    """Features that few messages use. `delay_ms` is relative to arrival, `due_ms` is absolute; messages with
    the same `dedup_id` are repeats of one; messages of one `group` are delivered to one consumer at a
    time. A message that was `resent` may be at another broker, too, and delivered by it."""

    delay_ms: int = 0
    dedup_id: str = ""
    group: str = ""
    due_ms: int = 0
    resent: bool = False

    @property
    def digest(self) -> bytes:
        """The dedup-id in 16 bytes."""
        return blake2b(self.dedup_id.encode(errors="surrogatepass"), digest_size=16).digest()

    @property
    def is_delayed(self) -> bool:
        """True if delivery may be delayed."""
        return bool(self.delay_ms or self.due_ms)

    def due_at(self, now_ms: int) -> int:
        """The time when a message that arrives at `now_ms` is due."""
        return max(self.due_ms, now_ms + self.delay_ms)


class Envelope:
    """Immutable data of messages that were sent with one header block.

    `address` is the full destination ("/queue/orders"), `block` the user's header lines in STOMP 1.2
    escaping, each ended by a newline. `expires_ms` is absolute, `ttl_ms` relative to arrival; 0 is never.
    `options` is None for nearly all messages, which take a shorter path through the core.
    `overhead_bytes` is the memory of a message in addition to its body.
    `tail` and `tail_key` are for sessions to cache the rendered form of the block in.
    """

    __slots__ = (
        "address",
        "block",
        "expires_ms",
        "options",
        "overhead_bytes",
        "persistent",
        "priority",
        "tail",
        "tail_key",
        "ttl_ms",
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
        options: DeliveryOptions | None = None,
    ) -> None:
        self.address = address
        self.block = block
        self.overhead_bytes = len(block) + OVERHEAD_BYTES
        self.persistent = persistent
        self.priority = priority
        self.ttl_ms = ttl_ms
        self.expires_ms = expires_ms
        self.options = options
        self.tail = b""
        self.tail_key: object = None

    def with_options(self, options: DeliveryOptions | None) -> Envelope:
        """A copy with other options."""
        return self._copy(self.ttl_ms, self.expires_ms, options)

    def with_expiry(self, expires_ms: int) -> Envelope:
        """A copy that expires at `expires_ms`."""
        return self._copy(0, expires_ms, self.options)

    def _copy(self, ttl_ms: int, expires_ms: int, options: DeliveryOptions | None) -> Envelope:
        return Envelope(
            self.address,
            self.block,
            persistent=self.persistent,
            priority=self.priority,
            ttl_ms=ttl_ms,
            expires_ms=expires_ms,
            options=options,
        )

    def expires_at_ms(self, from_ms: int) -> int:
        """The time when a message that exists from `from_ms` on expires; 0 is never."""
        if not self.ttl_ms:
            return self.expires_ms
        by_ttl = from_ms + self.ttl_ms
        return min(by_ttl, self.expires_ms) if self.expires_ms else by_ttl


class ReleasedBody:
    """The length of a body that is only in the journal. It is no `bytes`, so that nothing can send it."""

    __slots__ = ("_length",)

    def __init__(self, length: int) -> None:
        self._length = length

    def __len__(self) -> int:
        return self._length


class Message:
    """One message. `position` is its place in the order of the journal, `attempts` the number of deliveries
    that were returned; `explicit_id` is set when the id does not follow from time and position."""

    __slots__ = (
        "attempts",
        "body",
        "envelope",
        "expires_ms",
        "explicit_id",
        "position",
        "recorded",
        "sequence",
        "time_ms",
    )
    #: where it came from, if another broker owns it (`remote_messages.RemoteMessage`)
    origin: Any = None

    def __init__(self, envelope: Envelope, body: bytes, position: int, time_ms: int, recorded: bool) -> None:
        self.envelope = envelope
        self.body = body
        self.position = position
        self.time_ms = time_ms
        #: whether it is in the journal: its acknowledgement is then recorded
        self.recorded = recorded
        self.attempts = 0
        #: its place in its lane: increasing, recorded or not, and unchanged when it was paged out
        self.sequence = 0
        self.explicit_id: bytes | None = None
        self.expires_ms = envelope.expires_at_ms(time_ms) if envelope.ttl_ms else envelope.expires_ms

    @property
    def size(self) -> int:
        """Bytes of memory."""
        return len(self.body) + self.envelope.overhead_bytes

    @property
    def has_body(self) -> bool:
        """False while the body is only in the journal."""
        return not isinstance(self.body, ReleasedBody)

    def release_body(self) -> None:
        """Keep only the length of the body, which is in the journal."""
        released: Any = ReleasedBody(len(self.body))
        self.body = released


def group_of(message: Message) -> str:
    """The name of the message's group, empty when it has none."""
    options = message.envelope.options
    return options.group if options is not None else ""


class Duplicate(Message):
    """A repeat, with id, position and time of the first message. It was not stored."""

    __slots__ = ()


class MessageIds:
    """Makes message ids: UUIDv7 whose random bits are the broker's tag (26 bits) and the position (48).

    tttttttt-tttt-7ggg-vggg-pppppppppppp: t milliseconds, g tag, v variant and two bits of tag, p position.
    So ids sort by time, are unique among brokers, and contain the position of their message.
    """

    def __init__(self, tag: int) -> None:
        self.tag = tag = tag & 0x3FFFFFF
        #: the tag as clients know it
        self.journal = f"{tag:x}"
        self._of_tag = b"-7%03x-%04x-" % (tag >> 14, 0x8000 | (tag & 0x3FFF))
        self._time_ms = -1
        self._prefix = b""

    def prefix(self, time_ms: int) -> bytes:
        """The first 24 characters, shared by all messages of one millisecond."""
        if time_ms != self._time_ms:
            time = b"%012x" % time_ms
            self._prefix = time[:8] + b"-" + time[8:] + self._of_tag
            self._time_ms = time_ms
        return self._prefix

    def of(self, message: Message) -> bytes:
        """The id of a message."""
        return message.explicit_id or b"%b%012x" % (self.prefix(message.time_ms), message.position)

    def time_ms(self, message: Message) -> int:
        """The time when a message was first published, if its id contains it."""
        own = message.explicit_id or b""
        if self.position(own.decode()) is None or own[14:15] != b"7":
            return message.time_ms
        return int(own[:8] + own[9:13], 16)

    @staticmethod
    def position(message_id: str) -> int | None:
        """The position in an id of this form, None for text of another form."""
        parts = message_id.split("-")
        if [len(part) for part in parts] != [8, 4, 4, 4, 12]:
            return None
        try:
            return int(parts[4], 16)
        except ValueError:
            return None
