"""Byte layouts of the log; pure, and the only place that knows them. All integers are little endian.

A record, opaque to the journal apart from one type number:

    u32 length of the whole record | u8 type | rest

A frame holds one batch; a segment file is a segment header followed by frames:

     0  4s   b"MOMB"                 20  u64  segment id      52  u32  count of records
     4  u32  length of the frame     28  u64  epoch           56  u32  length of the table
     8  u32  CRC32C of all below     36  u64  first position  60  table, records
    12  u8   format version          44  u64  time, µs UTC
    13  u8   flags
    14  6x

The table has the addresses of the batch: destinations, replication offsets, clients (u32 count, then u16
length and UTF-8 bytes each); records refer to them by index. Each use of a file has a new random segment id,
so that frames left over from an earlier use are never taken for current ones.

In a CARRIED frame the records are survivors of one earlier batch, whose first position, time, epoch
and table it repeats; each record is preceded by its own position (u64).
"""

import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, reduce
from itertools import groupby, pairwise

import google_crc32c

from broker_app.journal.errors import JournalDamaged

PUBLISHED = 1  # the one record type that means something to the journal: read back later by position

FORMAT = 1
CARRIED = 1  # frame flag

MAGIC = b"MOMB"
_PREFIX = struct.Struct("<4sII")
_BODY = struct.Struct("<BB6xQQQQII")
_CHECKSUM_OFFSET, _SEGMENT_ID_OFFSET = 8, 20
FRAME_HEADER_BYTES = _PREFIX.size + _BODY.size
MAX_FRAME_BYTES = 2**32 - 1
#: bytes whose checksum is calculated at once, in 60 µs: meanwhile no other thread runs, nor the event loop.
#: More are cut, which copies them
_AT_ONCE_BYTES = 1024 * 1024
#: bytes of a part that is not joined with others in a large frame
_LARGE_BYTES = 1024 * 1024

_U16 = struct.Struct("<H")
_U32 = struct.Struct("<I")
_U64 = struct.Struct("<Q")
RECORD_HEADER_BYTES = 5


def checksum(content: bytes, before: int = 0) -> int:
    """CRC32C of `content`, behind what has the checksum `before`."""
    if len(content) <= _AT_ONCE_BYTES:
        return int(google_crc32c.extend(before, content))
    return _checksum_of_part(content, 0, len(content), before)


def _checksum_of_part(content: bytes, start: int, end: int, before: int = 0) -> int:
    """The same of `content[start:end]`, of which no more is copied at a time than is calculated at once."""
    for at in range(start, end, _AT_ONCE_BYTES):
        before = google_crc32c.extend(before, content[at : min(at + _AT_ONCE_BYTES, end)])
    return before


# ------------------------------------------------------------------------------------- records


def encode_record(kind: int, rest: bytes) -> bytes:
    """One whole record."""
    return _U32.pack(RECORD_HEADER_BYTES + len(rest)) + bytes((kind,)) + rest


def record_starts(content: bytes, start: int, end: int) -> list[int]:
    """The offsets of all records between `start` and `end`, and `end` itself as the last entry.

    Raises ValueError if lengths and `end` do not agree.
    """
    starts = []
    at = start
    length_at = _U32.unpack_from
    while at < end:
        starts.append(at)
        length = length_at(content, at)[0] if at + RECORD_HEADER_BYTES <= end else 0
        if length < RECORD_HEADER_BYTES:
            raise ValueError(f"record at byte {at} has an impossible length")
        at += length
    if at != end:
        raise ValueError(f"last record ends at byte {at} instead of {end}")
    starts.append(end)
    return starts


def iterate_records(records: bytes) -> Iterator[tuple[int, bytes]]:
    """(type, whole record) of each record. Raises ValueError like `record_starts`."""
    starts = record_starts(records, 0, len(records))
    for start, end in pairwise(starts):
        yield records[start + 4], records[start:end]


# -------------------------------------------------------------------------------------- frames


@dataclass(frozen=True, slots=True)
class Frame:
    """A frame's header; `records_at` counts from the frame's first byte."""

    length: int
    crc: int
    version: int
    flags: int
    segment_id: int
    epoch: int
    first_position: int
    time_us: int
    count: int
    records_at: int

    @property
    def next_position(self) -> int:
        """The position after the frame's last record (for a frame that is not CARRIED)."""
        return self.first_position + self.count


def encode_table(destinations: Sequence[str]) -> bytes:
    """The destination table. Raises ValueError for a name of more than 65,535 bytes."""
    return b"".join([_U32.pack(len(destinations)), *map(_encode_name, destinations)])


@lru_cache(maxsize=4096)  # the batches of a broker repeat a few
def _encode_name(name: str) -> bytes:
    raw = name.encode()
    if len(raw) > 0xFFFF:
        raise ValueError(f"destination name of {len(raw)} bytes; at most 65535 fit")
    return _U16.pack(len(raw)) + raw


def decode_table(content: bytes) -> list[str]:
    """The destinations of the table that `content` starts with."""
    (count,) = _U32.unpack_from(content, 0)
    names = []
    at = 4
    for _ in range(count):
        (length,) = _U16.unpack_from(content, at)
        at += 2
        names.append(content[at : at + length].decode())
        at += length
    return names


def encode_frame(
    segment_id: int,
    epoch: int,
    first_position: int,
    time_us: int,
    count: int,
    table: bytes,
    parts: Iterable[bytes],
    *,
    flags: int = 0,
    is_large: bool = False,
) -> tuple[bytes, ...]:
    """A frame as two pieces to be written one after the other (joining them would copy everything again).
    With `is_large`, large parts are pieces of their own, which are not copied at all.

    Raises ValueError if the frame would be larger than 4 GiB.
    """
    head = _BODY.pack(FORMAT, flags, segment_id, epoch, first_position, time_us, count, len(table))
    if is_large:
        pieces = _apart((head, table, *parts))
        length = _PREFIX.size + sum(map(len, pieces))
        return _prefix(length, reduce(lambda crc, piece: checksum(piece, crc), pieces, 0)), *pieces
    content = b"".join((head, table, *parts))
    return _prefix(_PREFIX.size + len(content), checksum(content)), content


def _prefix(length: int, crc: int) -> bytes:
    """The beginning of a frame of so many bytes."""
    if length > MAX_FRAME_BYTES:
        raise ValueError(f"batch of {length} bytes; at most {MAX_FRAME_BYTES} fit in one write")
    return _PREFIX.pack(MAGIC, length, crc)


def _apart(content: Iterable[bytes]) -> Sequence[bytes]:
    """Large pieces one by one, the others joined between them."""
    pieces: list[bytes] = []
    for is_large, run in groupby(content, lambda piece: len(piece) >= _LARGE_BYTES):
        together = list(run)
        pieces += together if is_large else [b"".join(together)]
    return pieces


def decode_frame(content: bytes, at: int) -> Frame | None:
    """The frame header at byte `at`, or None if there is none; the checksum is not looked at."""
    if at + FRAME_HEADER_BYTES > len(content) or content[at : at + 4] != MAGIC:
        return None
    _, length, crc = _PREFIX.unpack_from(content, at)
    version, flags, segment_id, epoch, first, time_us, count, table = _BODY.unpack_from(
        content, at + _PREFIX.size
    )
    records_at = FRAME_HEADER_BYTES + table
    return Frame(length, crc, version, flags, segment_id, epoch, first, time_us, count, records_at)


def is_whole(content: bytes, at: int, frame: Frame) -> bool:
    """True if the frame at byte `at` is complete and its checksum right."""
    end = at + frame.length
    if frame.records_at > frame.length or end > len(content):
        return False
    return _checksum_of_part(content, at + _PREFIX.size, end) == frame.crc


def is_whole_apart(pieces: Sequence[bytes], frame: Frame) -> bool:
    """True if the frame that was read in pieces, the first with its head, is complete and its checksum
    right."""
    if sum(map(len, pieces)) != frame.length:
        return False
    crc = checksum(pieces[0][_PREFIX.size :])
    for piece in pieces[1:]:
        crc = checksum(piece, crc)
    return crc == frame.crc


def frames_of(content: bytes) -> Iterator[tuple[int, Frame]]:
    """(offset, header) of frames that follow each other; checksums are not looked at. Raises ValueError where
    no frame begins, or one is cut off."""
    at = 0
    while at < len(content):
        frame = decode_frame(content, at)
        if frame is None or frame.length < FRAME_HEADER_BYTES or at + frame.length > len(content):
            raise ValueError(f"there is no whole frame at byte {at}")
        yield at, frame
        at += frame.length


def with_segment_id(content: bytes, segment_id: int) -> bytes:
    """A whole frame, as it is in another segment; its length stays the same."""
    if _U64.unpack_from(content, _SEGMENT_ID_OFFSET)[0] == segment_id:
        return content
    moved = bytearray(content)
    _U64.pack_into(moved, _SEGMENT_ID_OFFSET, segment_id)
    _U32.pack_into(moved, _CHECKSUM_OFFSET, checksum(bytes(memoryview(moved)[_PREFIX.size :])))
    return bytes(moved)


def begins_frame(content: bytes, at: int, segment_id: int) -> bool:
    """True if a frame of segment `segment_id` begins at byte `at`, even if its magic or its id is damaged."""
    id_at = at + _SEGMENT_ID_OFFSET
    if content[id_at : id_at + _U64.size] == _U64.pack(segment_id):
        return True
    frame = decode_frame(content, at)
    if frame is None or frame.length < FRAME_HEADER_BYTES or at + frame.length > len(content):
        return False
    # A frame left from an earlier use of the file has another id under its checksum and fails with ours.
    restored = bytearray(content[at : at + frame.length])
    _U64.pack_into(restored, _SEGMENT_ID_OFFSET, segment_id)
    return is_whole(bytes(restored), 0, frame)


def encode_carried(position: int, record: bytes) -> tuple[bytes, bytes]:
    """A survivor as it stands in a CARRIED frame, in two parts."""
    return _U64.pack(position), record


def carried_records(content: bytes, start: int, end: int) -> Iterator[tuple[int, int, int]]:
    """(position, start, end) of each record of a CARRIED frame; `content[start:end]` holds them all."""
    at = start
    while at < end:
        (position,) = _U64.unpack_from(content, at)
        (length,) = _U32.unpack_from(content, at + 8)
        yield position, at + 8, at + 8 + length
        at += 8 + length


# -------------------------------------------------------------------------- segment file header

LOG, CARRY = 1, 2  # kinds of segment files

_SEGMENT_MAGIC = b"MOMSEG\r\n"
_SEGMENT = struct.Struct("<BB6xQQQQ")
SEGMENT_HEADER_BYTES = 64  # padded with zeros; the first frame follows


@dataclass(frozen=True, slots=True)
class SegmentHeader:
    """The head of a segment file.

    A CARRY file takes the place of every older segment whose positions lie within
    [`covers_first`, `covers_next`); both are 0 in a LOG file.
    """

    kind: int
    segment_id: int
    sequence: int
    covers_first: int = 0
    covers_next: int = 0


def encode_segment_header(header: SegmentHeader) -> bytes:
    """The first SEGMENT_HEADER_BYTES bytes of a segment file."""
    body = _SEGMENT.pack(
        FORMAT, header.kind, header.segment_id, header.sequence, header.covers_first, header.covers_next
    )
    content = _SEGMENT_MAGIC + _U32.pack(checksum(body)) + body
    return content.ljust(SEGMENT_HEADER_BYTES, b"\0")


def decode_segment_header(content: bytes) -> SegmentHeader | None:
    """The header of a segment file, or None if there is none. Raises JournalDamaged for a newer format."""
    body = content[12 : 12 + _SEGMENT.size]
    if (
        content[:8] != _SEGMENT_MAGIC
        or len(body) < _SEGMENT.size
        or content[8:12] != _U32.pack(checksum(body))
    ):
        return None
    version, kind, segment_id, sequence, first, following = _SEGMENT.unpack(body)
    if version != FORMAT:
        raise JournalDamaged(f"format {version} is not known to this version of MOM (it knows {FORMAT})")
    return SegmentHeader(kind, segment_id, sequence, first, following)


# ------------------------------------------------------------------------ sealed (whole) files


def seal(magic: bytes, numbers: Sequence[int], content: Sequence[bytes]) -> bytes:
    """The head of a file that is valid only whole; the pieces of `content` follow.

    It is: magic (8 bytes), CRC32C of what follows, u64 numbers, length of the content.
    """
    head = struct.pack(f"<{len(numbers) + 1}Q", *numbers, sum(map(len, content)))
    crc = google_crc32c.value(head)
    for piece in content:
        crc = google_crc32c.extend(crc, piece)
    return magic + _U32.pack(crc) + head


def unseal(magic: bytes, count: int, sealed: bytes) -> tuple[list[int], bytes] | None:
    """The `count` numbers and the content of a sealed file, or None if it is torn or damaged."""
    body = sealed[12:]
    if sealed[:8] != magic or len(body) < 8 * (count + 1) or sealed[8:12] != _U32.pack(checksum(body)):
        return None
    numbers = [int(_U64.unpack_from(body, 8 * i)[0]) for i in range(count + 1)]
    content = body[8 * (count + 1) :]
    return (numbers[:-1], content) if len(content) == numbers[-1] else None
