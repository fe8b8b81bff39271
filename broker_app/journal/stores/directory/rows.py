"""Rows of a store in files: frames one after the other, each with its place in the journal.

A row is: magic, CRC32C of the rest, first position, count of records, count of positions, bytes of the frame;
then the positions (of a carried frame), and the frame.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import google_crc32c

from broker_app.journal.files import File

ROW_MAGIC: Final = b"MOMr"
_HEAD: Final = struct.Struct("<4sIQIII")
_CHECKED_FROM: Final = 8
_POSITION_BYTES: Final = 8
#: a row is read with its neighbours: most frames are small
_READ_BYTES: Final = 64 * 1024


class FileRow(NamedTuple):
    """A row in a file; `frame_at` is the offset of its frame, `end` that of the next row."""

    first_position: int
    records: int
    positions: Sequence[int] | None
    frame_at: int
    end: int

    @property
    def size(self) -> int:
        """Bytes of the frame."""
        return self.end - self.frame_at


def encode_row(
    first_position: int, records: int, frame: bytes, positions: Sequence[int] | None = None
) -> tuple[bytes, ...]:
    """The pieces of a row."""
    places = array("Q", positions or ()).tobytes()
    numbers = struct.pack("<QIII", first_position, records, len(positions or ()), len(frame))
    crc = google_crc32c.value(numbers)
    for piece in (places, frame):
        crc = google_crc32c.extend(crc, piece)
    return ROW_MAGIC + struct.pack("<I", crc) + numbers, places, frame


class RowReader:
    """Reads the rows of one file in their order."""

    def __init__(self, file: File, offset: int = 0) -> None:
        self._file = file
        self._content = b""
        self._content_at = 0
        #: of the next row
        self.offset = offset

    def next(self) -> tuple[FileRow, bytes] | None:
        """The next row and its frame; None at the end, and before a row that is not whole."""
        head = self._read(self.offset, _HEAD.size)
        if len(head) < _HEAD.size:
            return None
        magic, crc, first_position, records, places, size = _HEAD.unpack(head)
        if magic != ROW_MAGIC:
            return None
        frame_at = self.offset + _HEAD.size + places * _POSITION_BYTES
        rest = self._read(self.offset + _CHECKED_FROM, frame_at + size - self.offset - _CHECKED_FROM)
        if google_crc32c.value(rest) != crc:
            return None
        begin = frame_at - self.offset - _CHECKED_FROM
        positions = array("Q", rest[begin - places * _POSITION_BYTES : begin]) if places else None
        row = FileRow(first_position, records, positions, frame_at, frame_at + size)
        self.offset = row.end
        return row, rest[begin:]

    def _read(self, offset: int, size: int) -> bytes:
        start = offset - self._content_at
        if start < 0 or start + size > len(self._content):
            self._content = self._file.read(max(size, _READ_BYTES), offset)
            self._content_at, start = offset, 0
        return self._content[start : start + size]


def rows_of(file: File) -> Iterator[FileRow]:
    """The rows of a file, without checking and reading their frames."""
    offset = 0
    while len(head := file.read(_HEAD.size, offset)) == _HEAD.size and head.startswith(ROW_MAGIC):
        _, _, first_position, records, places, size = _HEAD.unpack(head)
        positions_at = offset + _HEAD.size
        positions = array("Q", file.read(places * _POSITION_BYTES, positions_at)) if places else None
        frame_at = positions_at + places * _POSITION_BYTES
        offset = frame_at + size
        yield FileRow(first_position, records, positions, frame_at, offset)
