"""The records of the journal: what each holds, byte by byte. All numbers are little endian.

Every record begins with `u32 length | u8 type | u8 version`; `length` counts the whole record.
Destinations are indexes into the destination table of the batch that holds the record.

PUBLISHED  u8 flags | u8 priority | u32 destination | u32 block length | u64 time ms | u64 expires ms
           | [36 bytes id] | [u64 due ms] | [16 bytes digest of the dedup-id] | [u16 length, address]
           | header block | body
ACKED      u8 cause | u8 0 | u32 destination | u64 position …          (removed: see CAUSES)
DELIVERED  u8 0 | u8 priority | u32 destination | u64 position         (all up to here were delivered once)
RETURNED   u8 0 | u8 0 | u32 destination | (u64 position | u64 attempts) …  (how often each was
           delivered; also for a first delivery out of order, which DELIVERED cannot express)
SUBSCRIBED u8 shared | u8 0 | u32 destination | u32 length of filter | u32 of selector
           | filter | selector | owner
FORGOTTEN  u8 0 | u8 0 | u32 destination
OFFSET_SET u8 0 | u8 0 | u32 destination | u64 position | u64 count | u64 time ms | owner   (how far another
           broker has come that forwards as this user: all up to this position has arrived, so many messages,
           the last at that time)

The address in a PUBLISHED record is the one that the message was sent to, for a copy in another queue.
SUBSCRIBED and FORGOTTEN begin and end the durable subscription whose queue is the destination. That of
OFFSET_SET is /mark/<sender>/<source>; one follows, in the same batch, the messages that it counts, and
FORGOTTEN ends it."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from struct import Struct
from typing import NamedTuple

from broker_app.core.header_block import escape, group
from broker_app.core.message import DeliveryOptions, Envelope, Message, MessageIds

PUBLISHED, ACKED, DELIVERED, RETURNED, SUBSCRIBED, FORGOTTEN, OFFSET_SET = 1, 2, 3, 4, 5, 6, 7
VERSION = 1

#: causes of ACKED records: why a message was removed
ACKNOWLEDGED, EXPIRED, DEAD_LETTERED, DISCARDED, PURGED, MOVED, DUE, TRIMMED = range(8)
CAUSES = ("acknowledged", "expired", "dead-lettered", "discarded", "purged", "moved", "due", "trimmed")

TRANSIENT = 1  # not persistent: recorded only because memory was full
HAS_ID = 2
DELAYED = 4  # waits until it is due, outside its lane
DEDUP = 8
GROUPED = 16  # the header block names a group
HAS_ADDRESS = 32  # a copy in another queue than the one it was sent to

_PUBLISHED = Struct("<IBBBBIIQQ")
_HEAD = Struct("<IBBBBI")
_POSITION = Struct("<Q")
_ADDRESS = Struct("<H")
_TERMS = Struct("<II")
_MARK = Struct("<QQQ")
HEAD_SIZE = _HEAD.size
FLAGS_AT = 6  # behind length, type and version
ID_SIZE = 36
DIGEST_SIZE = 16
pack_published = _PUBLISHED.pack
PUBLISHED_SIZE = _PUBLISHED.size


class Terms(NamedTuple):
    """The properties of a named subscription: a topic filter ("/topic/prices.*"), a selector or "", whether
    several may consume it at once, and the user who owns it."""

    filter: str
    selector: str
    shared: bool
    owner: str


def published(message: Message, destination: int, kept_in: str, due_ms: int = 0) -> tuple[bytes, ...]:
    """The parts of a PUBLISHED record; `kept_in` is the address behind the index `destination`, `due_ms` when
    a scheduled message is due."""
    envelope = message.envelope
    flags = 0 if envelope.persistent else TRANSIENT
    explicit = message.explicit_id or b""
    if explicit:
        flags |= HAS_ID
    if due_ms:
        flags |= DELAYED
        explicit += _POSITION.pack(due_ms)
    options = envelope.options
    if options is not None and options.group:
        flags |= GROUPED
    # A message with an id was published before and repeats nothing, unless it is a copy of the present one.
    if options is not None and options.dedup_id and (not flags & HAS_ID or envelope.address != kept_in):
        flags |= DEDUP
        explicit += options.digest
    if flags & HAS_ID and envelope.address != kept_in:
        flags |= HAS_ADDRESS
        address = envelope.address.encode()
        explicit += _ADDRESS.pack(len(address)) + address
    block, body = envelope.block, message.body
    size = PUBLISHED_SIZE + len(explicit) + len(block) + len(body)
    head = pack_published(
        size,
        PUBLISHED,
        VERSION,
        flags,
        envelope.priority,
        destination,
        len(block),
        message.time_ms,
        message.expires_ms,
    )
    return (head, explicit, block, body)


def damaged(priority: int, why: str, time_ms: int) -> bytes:
    """The replacement of a damaged PUBLISHED record: a message without a body, with the reason in a
    header."""
    block = f"damaged:{escape(why)}\n".encode()
    size = PUBLISHED_SIZE + len(block)
    return pack_published(size, PUBLISHED, VERSION, 0, priority, 0, len(block), time_ms, 0) + block


def acked(destination: int, cause: int, positions: Iterable[int]) -> bytes:
    """An ACKED record."""
    body = array("Q", positions).tobytes()
    return _HEAD.pack(HEAD_SIZE + len(body), ACKED, VERSION, cause, 0, destination) + body


def delivered(destination: int, priority: int, position: int) -> bytes:
    """A DELIVERED record."""
    return _HEAD.pack(HEAD_SIZE + 8, DELIVERED, VERSION, 0, priority, destination) + _POSITION.pack(position)


def returned(destination: int, attempts: Iterable[tuple[int, int]]) -> bytes:
    """A RETURNED record; `attempts` are (position, attempts)."""
    body = array("Q", (number for pair in attempts for number in pair)).tobytes()
    return _HEAD.pack(HEAD_SIZE + len(body), RETURNED, VERSION, 0, 0, destination) + body


def subscribed(destination: int, terms: Terms) -> bytes:
    """A SUBSCRIBED record."""
    texts = [text.encode() for text in (terms.filter, terms.selector, terms.owner)]
    body = _TERMS.pack(len(texts[0]), len(texts[1])) + b"".join(texts)
    return _HEAD.pack(HEAD_SIZE + len(body), SUBSCRIBED, VERSION, terms.shared, 0, destination) + body


def forgotten(destination: int) -> bytes:
    """A FORGOTTEN record."""
    return _HEAD.pack(HEAD_SIZE, FORGOTTEN, VERSION, 0, 0, destination)


def offset_set(destination: int, facts: tuple[str, int, int, int]) -> bytes:
    """An OFFSET_SET record; `facts` are owner, position, count and time in ms."""
    owner, *numbers = facts
    body = _MARK.pack(*numbers) + owner.encode()
    return _HEAD.pack(HEAD_SIZE + len(body), OFFSET_SET, VERSION, 0, 0, destination) + body


def offset_of(records: bytes, start: int, end: int) -> tuple[str, int, int, int]:
    """The content of an OFFSET_SET record: owner, position, count, time in ms."""
    position, count, time = _MARK.unpack_from(records, start + HEAD_SIZE)
    return records[start + HEAD_SIZE + _MARK.size : end].decode(), position, count, time


def terms(records: bytes, start: int, end: int) -> Terms:
    """The content of a SUBSCRIBED record."""
    shared = _HEAD.unpack_from(records, start)[3]
    filter_size, selector_size = _TERMS.unpack_from(records, start + HEAD_SIZE)
    filter_at = start + HEAD_SIZE + _TERMS.size
    selector_at = filter_at + filter_size
    owner_at = selector_at + selector_size
    texts = records[filter_at:selector_at], records[selector_at:owner_at], records[owner_at:end]
    filter_, selector, owner = (text.decode() for text in texts)
    return Terms(filter_, selector, bool(shared), owner)


def walk(records: bytes) -> Iterator[tuple[int, int, int, int, int, int]]:
    """(type, flags or cause, priority, destination, start, end) of each record in turn."""
    offset, end, unpack = 0, len(records), _HEAD.unpack_from
    while offset < end:
        length, kind, version, flags, priority, destination = unpack(records, offset)
        if version != VERSION:
            raise ValueError(
                f"a record has version {version}, this program reads version {VERSION}; "
                "start the MOM that wrote this data"
            )
        yield kind, flags, priority, destination, offset, offset + length
        offset += length


def time_ms(records: bytes, start: int) -> int:
    """The time when the message of a PUBLISHED record was accepted."""
    time: int = _PUBLISHED.unpack_from(records, start)[7]
    return time


def due_of(record: bytes) -> int:
    """The time when the message of a PUBLISHED record is due, 0 when it is not delayed."""
    flags = record[FLAGS_AT]
    return due_ms(record, 0, flags) if flags & DELAYED else 0


def due_ms(records: bytes, start: int, flags: int) -> int:
    """The time when the message of a PUBLISHED record with the flag DELAYED is due."""
    due: int = _POSITION.unpack_from(records, start + PUBLISHED_SIZE + (ID_SIZE if flags & HAS_ID else 0))[0]
    return due


class FirstSeen(NamedTuple):
    """The dedup-id in a PUBLISHED record: `address` and `position` are those of the message that was sent
    when the record is a copy, else empty and 0."""

    digest: bytes
    time_ms: int
    address: str
    position: int


def first_seen(records: bytes, start: int, flags: int) -> FirstSeen:
    """The dedup-id of the record at `start`."""
    at = start + PUBLISHED_SIZE
    time_ms = _PUBLISHED.unpack_from(records, start)[7]
    position, address = 0, ""
    if flags & HAS_ID:
        position = MessageIds.position(records[at : at + ID_SIZE].decode()) or 0
        at += ID_SIZE
    if flags & DELAYED:
        at += _POSITION.size
    digest = records[at : at + DIGEST_SIZE]
    if flags & HAS_ADDRESS:
        at += DIGEST_SIZE
        (size,) = _ADDRESS.unpack_from(records, at)
        address = records[at + _ADDRESS.size : at + _ADDRESS.size + size].decode()
    return FirstSeen(digest, time_ms, address, position)


def positions(records: bytes, start: int, end: int) -> array[int]:
    """The u64 numbers behind the head of an ACKED, DELIVERED or RETURNED record."""
    numbers: array[int] = array("Q")
    numbers.frombytes(records[start + HEAD_SIZE : end])
    return numbers


class Record:
    """One record of a batch, for the `apply` methods of components. Recovery fills the same object for each
    record in turn, so it must not be kept.

    `cause` of an ACKED record is in `flags`."""

    __slots__ = ("address", "batch", "end", "flags", "kind", "position", "priority", "start")

    def __init__(self, batch: bytes) -> None:
        self.batch = batch
        self.address = ""
        self.kind = self.flags = self.priority = self.start = self.end = self.position = 0

    @property
    def positions(self) -> array[int]:
        """The numbers of an ACKED, DELIVERED or RETURNED record."""
        return positions(self.batch, self.start, self.end)

    @property
    def due_ms(self) -> int:
        """The time when the message of a PUBLISHED record with the flag DELAYED is due."""
        return due_ms(self.batch, self.start, self.flags)

    @property
    def time_ms(self) -> int:
        """The time when the message of a PUBLISHED record was accepted."""
        return time_ms(self.batch, self.start)

    @property
    def size(self) -> int:
        """The bytes of the record."""
        return self.end - self.start

    @property
    def first_seen(self) -> FirstSeen:
        """The dedup-id of a PUBLISHED record with the flag DEDUP."""
        return first_seen(self.batch, self.start, self.flags)

    @property
    def terms(self) -> Terms:
        """The content of a SUBSCRIBED record."""
        return terms(self.batch, self.start, self.end)

    @property
    def offset(self) -> tuple[str, int, int, int]:
        """The content of an OFFSET_SET record: owner, position, count, time in ms."""
        return offset_of(self.batch, self.start, self.end)


class Reader:
    """Turns PUBLISHED records of one queue back into messages; equal header blocks share an envelope."""

    MAX_ENVELOPES = 64

    def __init__(self, address: str) -> None:
        self._address = address
        self._envelopes: dict[tuple[bytes, int, int, str], Envelope] = {}

    def message(self, record: bytes, position: int) -> Message:
        """The message of the PUBLISHED record at a position."""
        _, _, _, flags, priority, _, block_size, time_ms, expires_ms = _PUBLISHED.unpack_from(record)
        start = PUBLISHED_SIZE
        explicit: bytes | None = None
        if flags & HAS_ID:
            explicit, start = record[start : start + ID_SIZE], start + ID_SIZE
        if flags & DELAYED:
            start += _POSITION.size
        if flags & DEDUP:
            start += DIGEST_SIZE
        address = self._address
        if flags & HAS_ADDRESS:
            (size,) = _ADDRESS.unpack_from(record, start)
            start += _ADDRESS.size + size
            address = record[start - size : start].decode()
        body_at = start + block_size
        envelope = self._envelope(record[start:body_at], priority, flags, address)
        message = Message(envelope, record[body_at:], position, time_ms, True)
        message.expires_ms = expires_ms
        message.explicit_id = explicit
        return message

    def _envelope(self, block: bytes, priority: int, flags: int, address: str) -> Envelope:
        key = (block, priority, flags, address)
        envelope = self._envelopes.get(key)
        if envelope is None:
            if len(self._envelopes) >= self.MAX_ENVELOPES:
                self._envelopes.clear()
            envelope = Envelope(
                address,
                block,
                persistent=not flags & TRANSIENT,
                priority=priority,
                options=DeliveryOptions(group=group(block)) if flags & GROUPED else None,
            )
            self._envelopes[key] = envelope
        return envelope
