"""The format of snapshots: sections, each of which holds what is recorded of one destination.

A snapshot is a head and one section for each destination that holds something:

    head     u8 number of the format
    section  u32 length of its head | u64 length of its numbers | msgpack head | u64 numbers …

The head of a section is [address, position, [[priority, delivered up to, waiting, attempts] …], delayed,
terms, grouped, dedup, history, offset]: the destination, the position before which the section contains all
its records, and how many numbers belong to each part: for each lane the positions that wait, then pairs of
position and attempts; then the due times of delayed messages, and as many positions; then the dedup-ids of
the window, four numbers each (two halves of the digest, position, time in ms); at last the positions of a
topic's history. `terms` are those of a durable subscription, else empty; `grouped` is the position of the
newest message with a group, if it may still wait, else 0; `history` is [trimmed to, closed, [[messages,
bytes, newest time] …]], the blocks of a history, else empty; `offset`, at the address of a replication
offset or a bulk producer, is the content of its OFFSET_SET record, else empty.

Sections are taken one after the other while the broker works. So each has a position of its own, and recovery
skips the records of a destination before it. A destination without a section was empty when it was its turn;
its records from the position of the snapshot on are applied."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from struct import Struct
from typing import Any

from msgspec import msgpack

FORMAT = 1
_SIZES = Struct("<IQ")

#: the address of the section that contains up to where histories were trimmed that no longer exist
LOST = ""
_JOINED = 16 * 1024  # bytes of a section that are not worth being kept in pieces


class Section:
    """The section of one destination, to be written."""

    def __init__(self, address: str, position: int) -> None:
        self._address = address
        self._position = position
        self._numbers: list[bytes] = []
        self.lanes: list[tuple[int, int, int, int]] = []
        self.delayed = 0
        self.terms: Sequence[Any] = ()
        self.grouped = 0
        self.dedup = 0
        self.history: Sequence[Any] = ()
        self.offset: Sequence[Any] = ()

    def add(self, chunks: Iterable[array[int]]) -> int:
        """Append numbers; returns how many."""
        added = [chunk.tobytes() for chunk in chunks]
        self._numbers += added
        return sum(map(len, added)) // 8

    def parts(self) -> list[bytes]:
        """The section's bytes, in pieces."""
        head = msgpack.encode(
            (
                *(self._address, self._position, self.lanes, self.delayed, self.terms, self.grouped),
                *(self.dedup, self.history, self.offset),
            )
        )
        size = sum(map(len, self._numbers))
        parts = [_SIZES.pack(len(head), size), head, *self._numbers]
        return parts if size > _JOINED else [b"".join(parts)]

    @property
    def cost(self) -> int:
        """The work it took, in small destinations."""
        return 1 + len(self._numbers)


class LoadedSection:
    """A section that was read: `lanes` as (priority, delivered up to, positions, attempts by position),
    `delayed` as (due times, positions), `terms` of a durable subscription or empty, `dedup` as
    `dedup.DedupWindows` saved it, `history` of a topic or empty, the positions `kept` in it, and the content
    of an `offset` or empty."""

    def __init__(self, head: Sequence[Any], numbers: array[int]) -> None:
        self.address: str = head[0]
        self.position: int = head[1]
        self.lanes: list[tuple[int, int, array[int], dict[int, int]]] = []
        self.terms: Sequence[Any] = head[4]
        self.grouped: int = head[5]
        at, delayed, dedup = 0, head[3], head[6]
        for priority, delivered_up_to, waiting, attempts in head[2]:
            pairs = numbers[at + waiting : at + waiting + attempts]
            known = dict(zip(pairs[::2], pairs[1::2], strict=True))
            self.lanes.append((priority, delivered_up_to, numbers[at : at + waiting], known))
            at += waiting + attempts
        self.delayed = numbers[at : at + delayed], numbers[at + delayed : at + 2 * delayed]
        at += 2 * delayed
        self.dedup = numbers[at : at + dedup]
        self.history: Sequence[Any] = head[7]
        self.offset: tuple[str, int, int, int] | tuple[()] = tuple(head[8])
        self.kept = numbers[at + dedup :]


def read(blob: bytes) -> Iterator[LoadedSection]:
    """The sections of a snapshot. Raises ValueError for another format."""
    view = memoryview(blob)
    if view[0] != FORMAT:
        raise ValueError(
            f"the snapshot has format {view[0]}, this program reads format {FORMAT}; "
            "start the MOM that wrote this data"
        )
    at = 1
    while at < len(view):
        head, numbers_size = _SIZES.unpack_from(view, at)
        at += _SIZES.size
        numbers: array[int] = array("Q")
        numbers.frombytes(view[at + head : at + head + numbers_size])
        yield LoadedSection(msgpack.decode(view[at : at + head]), numbers)
        at += head + numbers_size
