"""One part of a stage: the rows of one request, as they are stored in a file until they are committed.

    magic "MOMR" | u32 CRC-32 of all that follows | u32 length of the head | head in msgpack
    | n * u32 envelope of each row | n * u32 length of each body | bodies

The head is [user, whether refused rows become dead letters, rows, needs by address, envelopes]. A file is not
synced when it is written; so it may be torn after a crash of the machine, and its CRC is checked."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Mapping
from itertools import accumulate, pairwise
from pathlib import Path
from struct import Struct
from struct import error as struct_error
from typing import NamedTuple
from zlib import crc32

import msgspec

from broker_app.core.commands import Need
from broker_app.core.message import DeliveryOptions, Envelope
from broker_app.core.storage import dead_letter_headers

_START = Struct("<4sII")
_MAGIC = b"MOMR"
_CHECKED_FROM = 8

#: where refused rows become dead letters if their destination has none
BULK_DEAD_LETTERS = "/queue/$bulk.dead"
#: `dead-reason` of refused rows
REFUSED = "REFUSED"


class PartDamaged(Exception):
    """A file of a stage is no whole part, or cannot be read."""


class StoredEnvelope(msgspec.Struct, array_like=True, frozen=True):
    """An `Envelope` in a file; `dead` is set for rows that were refused and became dead letters."""

    address: str
    block: bytes
    persistent: bool
    priority: int
    ttl_ms: int
    expires_ms: int
    options: DeliveryOptions | None = None
    dead: bool = False

    @classmethod
    def of(cls, envelope: Envelope, *, dead: bool = False) -> StoredEnvelope:
        return cls(
            envelope.address,
            envelope.block,
            envelope.persistent,
            envelope.priority,
            envelope.ttl_ms,
            envelope.expires_ms,
            envelope.options,
            dead,
        )

    def envelope(self) -> Envelope:
        return Envelope(
            self.address,
            self.block,
            persistent=self.persistent,
            priority=self.priority,
            ttl_ms=self.ttl_ms,
            expires_ms=self.expires_ms,
            options=self.options,
        )


class PartHead(msgspec.Struct, array_like=True, frozen=True):
    """The head of a file; `needs` is the room for its rows by address, without those of dead letters."""

    user: str
    dead_letters: bool
    rows: int
    needs: dict[str, Need]
    envelopes: list[StoredEnvelope]
    #: the token of the user, if that has not all rights of the user
    token: str = ""


class Rows(NamedTuple):
    """Rows of one part: the envelope of each, by its index, the length of each body, and all bodies."""

    indexes: array[int]
    sizes: array[int]
    bodies: bytes | memoryview


_HEAD = msgspec.msgpack.Decoder(PartHead)


def numbers(content: bytes | memoryview) -> array[int]:
    """Numbers of 32 bits, which are little endian in files and requests."""
    found = array("I")
    found.frombytes(content)
    if sys.byteorder != "little":
        found.byteswap()
    return found


def _bytes_of(found: array[int]) -> bytes:
    if sys.byteorder != "little":
        found = array("I", found)
        found.byteswap()
    return found.tobytes()


def encoded(head: PartHead, rows: Rows) -> list[bytes | memoryview]:
    """The content of a file, in pieces."""
    packed = msgspec.msgpack.encode(head)
    pieces = [packed, _bytes_of(rows.indexes), _bytes_of(rows.sizes), rows.bodies]
    check = crc32(len(packed).to_bytes(4, "little"))
    for piece in pieces:
        check = crc32(piece, check)
    return [_START.pack(_MAGIC, check, len(packed)), *pieces]


def read_head(path: Path) -> PartHead:
    """The head of a file, whose CRC is not checked. Raises PartDamaged."""
    try:
        with path.open("rb") as file:
            magic, _, size = _START.unpack(file.read(_START.size))
            if magic == _MAGIC:
                return _HEAD.decode(file.read(size))
    except (OSError, struct_error, msgspec.DecodeError) as error:
        raise PartDamaged(f"{path.name}: {error}") from error
    raise PartDamaged(f"{path.name} is no part of a stage")


def read_entries(path: Path, rerouted: Mapping[str, str]) -> list[tuple[Envelope, bytes]]:
    """The rows of a file. Those to addresses in `rerouted` become dead letters, with that text as their
    reason. Raises PartDamaged."""
    try:
        content = path.read_bytes()
        magic, check, size = _START.unpack_from(content)
        if magic != _MAGIC or crc32(memoryview(content)[_CHECKED_FROM:]) != check:
            raise PartDamaged(f"{path.name} is damaged")
        head = _HEAD.decode(memoryview(content)[_START.size : _START.size + size])
    except (OSError, struct_error, msgspec.DecodeError) as error:
        raise PartDamaged(f"{path.name}: {error}") from error
    at = _START.size + size
    indexes = numbers(content[at : at + 4 * head.rows])
    sizes = numbers(content[at + 4 * head.rows : at + 8 * head.rows])
    envelopes = [_rerouted(stored, rerouted).envelope() for stored in head.envelopes]
    ends = pairwise(accumulate(sizes, initial=at + 8 * head.rows))
    return [(envelopes[index], content[start:end]) for index, (start, end) in zip(indexes, ends, strict=True)]


def _rerouted(stored: StoredEnvelope, rerouted: Mapping[str, str]) -> StoredEnvelope:
    if stored.dead or stored.address not in rerouted:
        return stored
    dead = dead_letter(stored.envelope(), stored.address, BULK_DEAD_LETTERS, rerouted[stored.address], 0)
    return StoredEnvelope.of(dead, dead=True)


def dead_letter(
    origin: Envelope, destination: str, address: str, detail: str, now_ms: int, reason: str = REFUSED
) -> Envelope:
    """The envelope of a refused row to `destination`, as a dead letter in the queue `address`; `now_ms` 0 is
    not shown."""
    facts = {
        dead_letter_headers.ORIGIN: destination,
        "dead-reason": reason,
        "dead-detail": detail,
        "dead-at": str(now_ms or ""),
    }
    block = dead_letter_headers.marked(origin.block, facts)
    return Envelope(address, block, priority=origin.priority)
