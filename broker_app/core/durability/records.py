"""The records of the journal: what each holds, byte by byte. All numbers are little endian.

Every record begins with `u32 length | u8 type | u8 version`; `length` counts the whole record.
Destinations are indexes into the destination table of the batch that holds the record.

PUBLISHED  u8 flags | u8 priority | u32 destination | u32 block length | u64 time ms | u64 expires ms
           | [36 bytes id] | [u64 due ms] | [16 bytes digest of the dedup-id] | [u32 client]
           | [u32 destination, u64 position: origin] | [u16 length, address] | header block | body
ACKED      u8 cause | u8 reason | u32 destination | u64 position …     (removed: see CAUSES, reasons.REASONS)
           version 2, behind the positions, in columns: u32 ms in the queue … | u32 bytes of body …
           | u16 bytes of header block … | u8 deliveries …             (see Facts)
           version 3, behind these: u32 client …                       (that acknowledged the message)
DELIVERED  u8 0 | u8 priority | u32 destination | u64 position         (all up to here were delivered once)
RETURNED   u8 given back | u8 reason | u32 destination | (u64 position | u64 attempts) …
           (0: a delivery began, which counts from now on; also a first delivery out of order, which DELIVERED
           cannot express. GIVEN_BACK: the delivery of this number failed; this changes no state)
           version 2, behind the pairs: u32 client …                   (that the message was delivered to)
SUBSCRIBED u8 shared | u8 0 | u32 destination | u32 length of filter | u32 of selector
           | filter | selector | owner
FORGOTTEN  u8 0 | u8 0 | u32 destination
OFFSET_SET u8 0 | u8 0 | u32 destination | u64 position | u64 count | u64 time ms | owner   (how far another
           broker has come that forwards as this user: all up to this position has arrived, so many messages,
           the last at that time)

Clients are indexes into the table, too (see client_address), or NO_CLIENT. That of a PUBLISHED record sent
the message; the reason of a failed delivery or a removed message is a code, 0 when it is not known.
The address in a PUBLISHED record is the one that the message was sent to, for a copy in another queue. The
origin of a message that another broker forwarded is the address of the replication offset, and its position
in the queue there.
SUBSCRIBED and FORGOTTEN begin and end the durable subscription whose queue is the destination. That of
OFFSET_SET is /mark/<sender>/<source>; one follows, in the same batch, the messages that it counts, and
FORGOTTEN ends it. At /bulk/<producer> it shows how far a producer of batches has come: the position is its
next batch, the count the number of rows of that batch that were published already."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from struct import Struct
from struct import error as StructError
from typing import NamedTuple

from broker_app.core.header_block import escape
from broker_app.core.message import Message, MessageIds

PUBLISHED, ACKED, DELIVERED, RETURNED, SUBSCRIBED, FORGOTTEN, OFFSET_SET = 1, 2, 3, 4, 5, 6, 7
VERSION = 1
#: later versions of ACKED records, and of RETURNED records
WITH_FACTS, WITH_FACTS_AND_CLIENTS = 2, 3
WITH_CLIENTS = 2
#: by type, the newest version; those that are not here have `VERSION` alone
_NEWEST = {ACKED: WITH_FACTS_AND_CLIENTS, RETURNED: WITH_CLIENTS}

#: causes of ACKED records: why a message was removed
ACKNOWLEDGED, EXPIRED, DEAD_LETTERED, DISCARDED, PURGED, MOVED, DUE, TRIMMED = range(8)
CAUSES = ("acknowledged", "expired", "dead-lettered", "discarded", "purged", "moved", "due", "trimmed")

TRANSIENT = 1  # not persistent: recorded only because memory was full
HAS_ID = 2
DELAYED = 4  # waits until it is due, outside its lane
DEDUP = 8
GROUPED = 16  # the header block names a group
HAS_ADDRESS = 32  # a copy in another queue than the one it was sent to
HAS_ORIGIN = 64  # another broker forwarded it
HAS_CLIENT = 128  # the client that sent it is known

GIVEN_BACK = 1  # of RETURNED records: a delivery failed
#: stands for the index of a client that has no name
NO_CLIENT = (1 << 32) - 1

#: in the deliveries of an ACKED record: the id of the message does not follow from its time and position
_OWN_ID = 128
_MOST_DELIVERIES = 127
#: deliveries with that bit, as signed bytes
_OWN_DELIVERIES = tuple(range(-_OWN_ID, 0))
_MOST_U16, _MOST_U32 = (1 << 16) - 1, (1 << 32) - 1
_COUNT_OF = bytes(number & _MOST_DELIVERIES for number in range(256))
_HAS_OWN_ID = bytes(number // _OWN_ID for number in range(256))

_PUBLISHED = Struct("<IBBBBIIQQ")
_HEAD = Struct("<IBBBBI")
_POSITION = Struct("<Q")
#: of the digest of a dedup-id
_HALVES = Struct("<QQ")
_ADDRESS = Struct("<H")
_TERMS = Struct("<II")
_MARK = Struct("<QQQ")
_ORIGIN = Struct("<IQ")
_CLIENT = Struct("<I")
#: an ACKED record with facts about so many messages, up to the clients
_ACKED_FORMAT = "<IBBBBI{0}Q{0}I{0}I{0}H{0}b"
_ACKED_LAYOUTS = tuple(Struct(_ACKED_FORMAT.format(count)) for count in range(256))
HEAD_SIZE = _HEAD.size
VERSION_AT = 5  # behind length and type
FLAGS_AT = 6
TYPE_AT = 4  # behind the length
#: by type and version, the bytes of one message in a record with columns, and how many of them are u64
_ROW_SIZES = {
    (ACKED, WITH_FACTS): (19, 8),
    (ACKED, WITH_FACTS_AND_CLIENTS): (23, 8),
    (RETURNED, WITH_CLIENTS): (20, 16),
}
ID_SIZE = 36
DIGEST_SIZE = 16
pack_published = _PUBLISHED.pack
#: (index of the client) as the `source` of a message, or the first part of it
pack_client = _CLIENT.pack
#: (index of the address of the replication offset, position) as the last part of the `source` of a message
pack_origin = _ORIGIN.pack
#: by the size of a `source`, the flags of a PUBLISHED record that has it
_FLAGS_OF_SOURCE = {
    0: 0,
    _CLIENT.size: HAS_CLIENT,
    _ORIGIN.size: HAS_ORIGIN,
    _CLIENT.size + _ORIGIN.size: HAS_CLIENT | HAS_ORIGIN,
}
PUBLISHED_SIZE = _PUBLISHED.size
#: (length, type, version, flags or cause, priority, destination) of any record
unpack_head = _HEAD.unpack_from
#: the same of a PUBLISHED record, and (length of the header block, time ms, expires ms)
unpack_published = _PUBLISHED.unpack_from
#: by flags, the bytes of the optional fields of a PUBLISHED record up to its address
OPTIONAL_SIZES = tuple(
    ID_SIZE * bool(flags & HAS_ID)
    + _POSITION.size * bool(flags & DELAYED)
    + DIGEST_SIZE * bool(flags & DEDUP)
    + _CLIENT.size * bool(flags & HAS_CLIENT)
    + _ORIGIN.size * bool(flags & HAS_ORIGIN)
    for flags in range(256)
)

#: the bytes of optional fields up to where the length of the address is known, at most
_MOST_OPTIONAL = max(OPTIONAL_SIZES) + _ADDRESS.size


class Terms(NamedTuple):
    """The properties of a named subscription: a topic filter ("/topic/prices.*"), a selector or "", whether
    several may consume it at once, and the user who owns it."""

    filter: str
    selector: str
    shared: bool
    owner: str


class Facts(NamedTuple):
    """Facts about each message of an ACKED record, in the order of its positions. Numbers stop at the largest
    value of their type.

    `queue_ms` is the time from the acceptance of the message to the batch of the record. `deliveries` are
    those that began, up to 127. `has_own_id` is 1 where the id of the message does not follow from its
    position and its time, which is that of the batch minus `queue_ms`; else 0."""

    queue_ms: array[int]
    body_bytes: array[int]
    header_bytes: array[int]
    deliveries: bytes
    has_own_id: bytes


def published(
    message: Message, destination: int, kept_in: str, due_ms: int = 0, source: bytes = b""
) -> tuple[bytes, ...]:
    """The parts of a PUBLISHED record; `kept_in` is the address behind the index `destination`, `due_ms` when
    a scheduled message is due, `source` the client that sent it (`pack_client`) and, of a forwarded message,
    where it came from (`pack_origin`), as far as they are known."""
    envelope = message.envelope
    flags, more = _FLAGS_OF_SOURCE[len(source)], source
    if not envelope.persistent:
        flags |= TRANSIENT
    if envelope.options is not None or message.explicit_id is not None or due_ms:
        flags, more = _with_options(message, kept_in, due_ms, source, flags)
    block, body = envelope.block, message.body
    block_size = len(block)
    head = pack_published(
        PUBLISHED_SIZE + len(more) + block_size + len(body),
        PUBLISHED,
        VERSION,
        flags,
        envelope.priority,
        destination,
        block_size,
        message.time_ms,
        message.expires_ms,
    )
    return (head, more, block, body)


def _with_options(
    message: Message, kept_in: str, due_ms: int, source: bytes, flags: int
) -> tuple[int, bytes]:
    """The flags of a PUBLISHED record with optional fields, and these fields."""
    envelope, more = message.envelope, message.explicit_id or b""
    if more:
        flags |= HAS_ID
    if due_ms:
        flags |= DELAYED
        more += _POSITION.pack(due_ms)
    options = envelope.options
    if options is not None and options.group:
        flags |= GROUPED
    # A message with an id was published before and repeats nothing, unless it is a copy of the present one.
    if options is not None and options.dedup_id and (not flags & HAS_ID or envelope.address != kept_in):
        flags |= DEDUP
        more += options.digest
    more += source
    if flags & HAS_ID and envelope.address != kept_in:
        flags |= HAS_ADDRESS
        address = envelope.address.encode()
        more += _ADDRESS.pack(len(address)) + address
    return flags, more


def damaged(priority: int, why: str, time_ms: int) -> bytes:
    """The replacement of a damaged PUBLISHED record: a message without a body, with the reason in a
    header."""
    block = f"damaged:{escape(why)}\n".encode()
    size = PUBLISHED_SIZE + len(block)
    return pack_published(size, PUBLISHED, VERSION, 0, priority, 0, len(block), time_ms, 0) + block


def acked(destination: int, cause: int, positions: Iterable[int], reason: int = 0) -> bytes:
    """An ACKED record of messages that are not in memory."""
    body = array("Q", positions).tobytes()
    return _HEAD.pack(HEAD_SIZE + len(body), ACKED, VERSION, cause, reason, destination) + body


def acked_with_facts(
    destination: int,
    cause: int,
    time_ms: int,
    messages: Sequence[Message],
    reason: int = 0,
    clients: bytes = b"",
) -> tuple[bytes, list[int]]:
    """An ACKED record of one or more messages in a batch of the time `time_ms`, and their positions.
    `clients` are the packed indexes of those that acknowledged them, if any did."""
    # The delivery that is acknowledged is not among the attempts, which were returned.
    begun = int(cause == ACKNOWLEDGED)
    version = WITH_FACTS_AND_CLIENTS if clients else WITH_FACTS
    layout = _acked_layout(len(messages))
    head = layout.size + len(clients), ACKED, version, cause, reason, destination
    pack = layout.pack
    positions: list[int] = []
    queue_ms: list[int] = []
    body_bytes: list[int] = []
    header_bytes: list[int] = []
    deliveries: list[int] = []
    try:
        # Every message passes here. For the usual few, comprehensions or arrays take twice as long.
        for message in messages:
            positions.append(message.position)
            queue_ms.append(time_ms - message.time_ms)
            body_bytes.append(len(message.body))
            header_bytes.append(len(message.envelope.block))
            number = message.attempts + begun
            deliveries.append(_OWN_DELIVERIES[number] if message.explicit_id else number)
        record = pack(*head, *positions, *queue_ms, *body_bytes, *header_bytes, *deliveries)
        return record + clients, positions
    except (StructError, IndexError):  # a number is too large for its column
        facts = [_facts_of(message, time_ms, begun) for message in messages]
        columns = [number for column in zip(*facts, strict=True) for number in column]
        return pack(*head, *columns) + clients, [message.position for message in messages]


def _acked_layout(count: int) -> Struct:
    """The layout of an ACKED record with facts about `count` messages, up to the clients."""
    return _ACKED_LAYOUTS[count] if count < len(_ACKED_LAYOUTS) else Struct(_ACKED_FORMAT.format(count))


def _facts_of(message: Message, time_ms: int, begun: int) -> tuple[int, int, int, int, int]:
    """The row of a message, each number at most the largest of its column."""
    queue_ms, header_bytes = time_ms - message.time_ms, len(message.envelope.block)
    deliveries = min(message.attempts + begun, _MOST_DELIVERIES)
    # The clock was set back, or it waited for weeks: its id cannot be derived, because its time cannot.
    has_time = 0 <= queue_ms <= _MOST_U32
    return (
        message.position,
        max(0, min(queue_ms, _MOST_U32)),
        min(len(message.body), _MOST_U32),
        min(header_bytes, _MOST_U16),
        deliveries if has_time and not message.explicit_id else _OWN_DELIVERIES[deliveries],
    )


def delivered(destination: int, priority: int, position: int) -> bytes:
    """A DELIVERED record."""
    return _HEAD.pack(HEAD_SIZE + 8, DELIVERED, VERSION, 0, priority, destination) + _POSITION.pack(position)


def returned(
    destination: int,
    attempts: Iterable[tuple[int, int]],
    given_back: int = 0,
    reason: int = 0,
    clients: bytes = b"",
) -> bytes:
    """A RETURNED record; `attempts` are (position, attempts), `clients` the packed indexes of their
    consumers; `given_back` is 0 or GIVEN_BACK, then with the code of a reason."""
    body = array("Q", (number for pair in attempts for number in pair)).tobytes() + clients
    version = WITH_CLIENTS if clients else VERSION
    return _HEAD.pack(HEAD_SIZE + len(body), RETURNED, version, given_back, reason, destination) + body


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
    """(type, flags or cause, priority or reason, destination, start, end) of each record in turn."""
    offset, end, unpack = 0, len(records), _HEAD.unpack_from
    while offset < end:
        length, kind, version, flags, priority, destination = unpack(records, offset)
        if version != VERSION and not is_known(kind, version):
            raise ValueError(
                f"a record has version {version}, this program reads version "
                f"{_NEWEST.get(kind, VERSION)}; start the MOM that wrote this data"
            )
        yield kind, flags, priority, destination, offset, offset + length
        offset += length


def is_known(kind: int, version: int) -> bool:
    """Return whether this program reads records of a type in a version."""
    return VERSION <= version <= _NEWEST.get(kind, VERSION)


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


def origin_of(records: bytes, start: int, flags: int) -> tuple[int, int] | None:
    """(index of the address of the replication offset, position in the queue there) of the PUBLISHED record
    of a message that another broker forwarded; None for other messages."""
    if not flags & HAS_ORIGIN:
        return None
    index, position = _ORIGIN.unpack_from(
        records, start + PUBLISHED_SIZE + OPTIONAL_SIZES[flags] - _ORIGIN.size
    )
    return index, position


def client_of(records: bytes, start: int, flags: int) -> int:
    """The index of the client that sent the message of a PUBLISHED record; NO_CLIENT when it is not known."""
    if not flags & HAS_CLIENT:
        return NO_CLIENT
    at = start + PUBLISHED_SIZE + OPTIONAL_SIZES[flags & ~HAS_ORIGIN] - _CLIENT.size
    return int(_CLIENT.unpack_from(records, at)[0])


def block_at(records: bytes, start: int, flags: int) -> int:
    """The offset of the header block of a PUBLISHED record; the body is behind it."""
    at = start + PUBLISHED_SIZE + OPTIONAL_SIZES[flags]
    if flags & HAS_ADDRESS:
        at += _ADDRESS.size + int(_ADDRESS.unpack_from(records, at)[0])
    return at


def body_at(record: bytes) -> int:
    """The offset of the body of a record that begins like this, 0 if it is no PUBLISHED one."""
    if len(record) < PUBLISHED_SIZE + _MOST_OPTIONAL or record[TYPE_AT] != PUBLISHED:
        return 0
    flags, block_size = record[FLAGS_AT], unpack_published(record)[6]
    return block_at(record, 0, flags) + int(block_size)


def head_of(record: bytes) -> bytes:
    """A PUBLISHED record up to its body."""
    return bytes(record[: block_at(record, 0, record[FLAGS_AT]) + unpack_published(record)[6]])


def address_of(records: bytes, start: int, flags: int) -> str:
    """The address that the message of a PUBLISHED record was sent to, if that is another than its queue; else
    empty."""
    if not flags & HAS_ADDRESS:
        return ""
    at = start + PUBLISHED_SIZE + OPTIONAL_SIZES[flags] + _ADDRESS.size
    return records[at : block_at(records, start, flags)].decode()


class FirstSeen(NamedTuple):
    """The dedup-id in a PUBLISHED record: `address` and `position` are those of the message that was sent
    when the record is a copy, else empty and 0."""

    digest: bytes
    time_ms: int
    address: str
    position: int


def first_seen(records: bytes, start: int, flags: int) -> FirstSeen:
    """The dedup-id of the record at `start`."""
    position = 0
    if flags & HAS_ID:
        at = start + PUBLISHED_SIZE
        position = MessageIds.position(records[at : at + ID_SIZE].decode()) or 0
    at = _digest_at(start, flags)
    return FirstSeen(
        records[at : at + DIGEST_SIZE], time_ms(records, start), address_of(records, start, flags), position
    )


def dedup_halves(records: bytes, start: int, flags: int) -> tuple[int, int]:
    """The halves of the digest of the dedup-id of the record at `start`."""
    first, second = _HALVES.unpack_from(records, _digest_at(start, flags))
    return first, second


def _digest_at(start: int, flags: int) -> int:
    at = start + PUBLISHED_SIZE
    if flags & HAS_ID:
        at += ID_SIZE
    if flags & DELAYED:
        at += _POSITION.size
    return at


def positions(records: bytes, start: int, end: int) -> array[int]:
    """The u64 numbers behind the head of an ACKED, DELIVERED or RETURNED record."""
    version = records[start + VERSION_AT]
    if version != VERSION:
        row_size, size = _ROW_SIZES[records[start + TYPE_AT], version]
        end = start + HEAD_SIZE + size * ((end - start - HEAD_SIZE) // row_size)
    numbers: array[int] = array("Q")
    numbers.frombytes(records[start + HEAD_SIZE : end])
    return numbers


def facts(records: bytes, start: int, end: int) -> Facts | None:
    """The facts of an ACKED record; None when it has none."""
    version = records[start + VERSION_AT]
    if version == VERSION:
        return None
    count = _messages(start, end, ACKED, version)
    queue_ms, body_bytes, header_bytes = array("I"), array("I"), array("H")
    at = start + HEAD_SIZE + _POSITION.size * count
    for column in (queue_ms, body_bytes, header_bytes):
        column.frombytes(records[at : at + column.itemsize * count])
        at += column.itemsize * count
    counts = records[at : at + count]
    return Facts(
        queue_ms, body_bytes, header_bytes, counts.translate(_COUNT_OF), counts.translate(_HAS_OWN_ID)
    )


def clients(records: bytes, start: int, end: int) -> array[int] | None:
    """The index of the client of each message of an ACKED or RETURNED record; None when it has none."""
    kind, version = records[start + TYPE_AT], records[start + VERSION_AT]
    if version != (WITH_CLIENTS if kind == RETURNED else WITH_FACTS_AND_CLIENTS):
        return None
    found = array("I")
    found.frombytes(records[end - _CLIENT.size * _messages(start, end, kind, version) : end])
    return found


def row_size(kind: int, version: int) -> int | None:
    """The bytes of one message in a record with columns; None for records without."""
    found = _ROW_SIZES.get((kind, version))
    return None if found is None else found[0]


def _messages(start: int, end: int, kind: int, version: int) -> int:
    """The number of messages of a record with columns."""
    return (end - start - HEAD_SIZE) // _ROW_SIZES[kind, version][0]
