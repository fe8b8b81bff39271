"""Sorted rows of numbers in compact arrays, 8 bytes a number, for millions of rows.

Rows are in chunks of bounded length, so adding or removing one moves few numbers, and nothing is ever
reorganized as a whole.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence

Row = tuple[int, ...]


class Rows:
    """Rows of `width` unsigned 64-bit numbers, ordered by the first; rows that are equal there keep the
    order in which they were added."""

    CHUNK = 1_024  # a chunk of more than twice as many rows is split
    __slots__ = ("_chunks", "_firsts", "_length", "_width")

    def __init__(self, width: int) -> None:
        self._width = width
        self._chunks: list[tuple[array[int], ...]] = []  # the columns of each chunk; none is empty
        self._firsts: list[int] = []  # the first number of each chunk
        self._length = 0

    def __len__(self) -> int:
        return self._length

    @property
    def first(self) -> int:
        """The first number of the first row. Assumes: there is one."""
        return self._firsts[0]

    def add(self, *row: int) -> None:
        """Insert a row at its place."""
        self._length += 1
        key = row[0]
        at = bisect_right(self._firsts, key) - 1
        if at < 0:
            if not self._chunks:
                self._chunks.append(tuple(array("Q", (number,)) for number in row))
                self._firsts.append(key)
                return
            at = 0
        chunk = self._chunks[at]
        place = bisect_right(chunk[0], key)
        for column, number in zip(chunk, row, strict=True):
            column.insert(place, number)
        if not place:
            self._firsts[at] = key
        if len(chunk[0]) > 2 * self.CHUNK:
            self._split(at)

    def extend(self, *columns: array[int]) -> None:
        """Append rows that are sorted and greater than all others, given by column."""
        for start in range(0, len(columns[0]), self.CHUNK):
            chunk = tuple(column[start : start + self.CHUNK] for column in columns)
            self._chunks.append(chunk)
            self._firsts.append(chunk[0][0])
        self._length += len(columns[0])

    def take(self, up_to: int, count: int) -> list[Row]:
        """Remove and return the first rows, `count` at most, whose first number is not above `up_to`."""
        taken: list[Row] = []
        while self._chunks and len(taken) < count and self._firsts[0] <= up_to:
            chunk = self._chunks[0]
            end = min(bisect_right(chunk[0], up_to), count - len(taken))
            taken += zip(*(column[:end] for column in chunk), strict=True)
            for column in chunk:
                del column[:end]
            self._settle(0)
        self._length -= len(taken)
        return taken

    def find(self, first: int) -> Iterator[Row]:
        """All rows that begin with `first`."""
        for at in range(max(0, bisect_left(self._firsts, first) - 1), len(self._chunks)):
            chunk = self._chunks[at]
            if chunk[0][0] > first:
                return
            start, end = bisect_left(chunk[0], first), bisect_right(chunk[0], first)
            yield from zip(*(column[start:end] for column in chunk), strict=True)

    def remove(self, first: int, second: int) -> bool:
        """Remove the row that begins with these two numbers; returns whether there was one."""
        for at in range(max(0, bisect_left(self._firsts, first) - 1), len(self._chunks)):
            chunk = self._chunks[at]
            if chunk[0][0] > first:
                break
            for place in range(bisect_left(chunk[0], first), bisect_right(chunk[0], first)):
                if chunk[1][place] == second:
                    for column in chunk:
                        del column[place]
                    self._settle(at)
                    self._length -= 1
                    return True
        return False

    def after(self, first: int, second: int) -> Iterator[Row]:
        """Rows in order whose first two numbers are greater than (`first`, `second`); chunks before them are
        not read."""
        start = max(0, bisect_left(self._firsts, first) - 1)
        for chunk in self._chunks[start:]:
            begin = bisect_left(chunk[0], first)
            for row in zip(*(column[begin:] for column in chunk), strict=True):
                if row[:2] > (first, second):
                    yield row

    def chunks(self) -> Iterator[Sequence[array[int]]]:
        """The columns of each chunk, in order; they must not be changed."""
        yield from self._chunks

    def _split(self, at: int) -> None:
        chunk = self._chunks[at]
        half = len(chunk[0]) // 2
        self._chunks[at : at + 1] = (
            tuple(column[:half] for column in chunk),
            tuple(column[half:] for column in chunk),
        )
        self._firsts.insert(at + 1, chunk[0][half])

    def _settle(self, at: int) -> None:
        """Update the index of a chunk that lost rows."""
        keys = self._chunks[at][0]
        if keys:
            self._firsts[at] = keys[0]
        else:
            del self._chunks[at]
            del self._firsts[at]
