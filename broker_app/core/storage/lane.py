"""A lane: the messages of one queue and one priority, most of them outside memory.

In a lane, from the front: `returned` (delivered before, back in their place), `ready` (bodies in memory),
`loading` (being read back) and `paged` (8 bytes each, the rest is in the journal). While anything is paged,
new arrivals go behind it.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterator, Sequence
from heapq import heappop, merge
from itertools import islice, takewhile
from operator import attrgetter, countOf, itemgetter
from typing import Any

from broker_app.core.message import Message

#: beyond every position
UNREACHED = 1 << 63
_LAST = itemgetter(-1)
_RECORDED = attrgetter("recorded")


class Positions:
    """A queue of journal positions, 8 bytes each."""

    CHUNK = 4_096
    FEW = 64  # so many positions are removed from a chunk one by one
    __slots__ = ("_chunks", "_last", "count")

    def __init__(self) -> None:
        self._last: array[int] = array("Q")
        self._chunks: deque[array[int]] = deque((self._last,))
        #: how many there are; for others to read, as `len` costs a call
        self.count = 0

    def __len__(self) -> int:
        return self.count

    def append(self, position: int) -> None:
        """Add a position that is higher than all others."""
        last = self._last
        if len(last) >= self.CHUNK:
            last = self._last = array("Q")
            self._chunks.append(last)
        last.append(position)
        self.count += 1

    def extend(self, positions: array[int]) -> None:
        """Add sorted positions that are higher than all others."""
        if positions and not self._last:
            self._chunks.pop()  # only the last chunk may be empty, and only when nothing is behind it
        for start in range(0, len(positions), self.CHUNK):
            self._last = positions[start : start + self.CHUNK]
            self._chunks.append(self._last)
        self.count += len(positions)

    def take(self, count: int) -> array[int]:
        """Remove and return up to `count` positions from the front."""
        taken: array[int] = array("Q")
        while count > len(taken) and self.count > len(taken):
            first = self._chunks[0]
            wanted = count - len(taken)
            if len(first) > wanted:
                taken.extend(first[:wanted])
                del first[:wanted]
            else:
                taken.extend(first)
                self._chunks.popleft()
                if not self._chunks:
                    self._last = array("Q")
                    self._chunks.append(self._last)
        self.count -= len(taken)
        return taken

    def chunks(self) -> Iterator[array[int]]:
        """The positions in chunks, in order; they must not be changed."""
        yield from self._chunks

    def among(self, wanted: Sequence[int]) -> list[int]:
        """Those of the sorted positions `wanted` that are here, in order."""
        return [position for _, found in self._overlaps(wanted) for position in found]

    def remove(self, wanted: Sequence[int]) -> int:
        """Remove those of the sorted positions `wanted` that are here; returns how many."""
        if len(wanted) <= self.FEW:
            return sum(map(self.discard, wanted))
        before, emptied = self.count, False
        for chunk, found in self._overlaps(wanted):
            self.count -= len(found)
            start = bisect_left(chunk, found[0])
            if chunk[start + len(found) - 1] == found[-1]:  # adjacent, as when a queue is purged
                del chunk[start : start + len(found)]
            elif len(found) <= self.FEW:
                for position in reversed(found):
                    del chunk[bisect_left(chunk, position)]
            else:
                gone = set(found)
                chunk[:] = array("Q", [position for position in chunk if position not in gone])
            emptied = emptied or not chunk
        if emptied:
            self._chunks = deque(chunk for chunk in self._chunks if chunk or chunk is self._last)
        return before - self.count

    def remove_front(self, wanted: array[int]) -> bool:
        """Remove the first positions if they equal `wanted`; returns whether they did."""
        chunk, count = self._chunks[0], len(wanted)
        if chunk[:count] != wanted:
            return False
        del chunk[:count]
        self.count -= count
        if not chunk and chunk is not self._last:
            self._chunks.popleft()
        return True

    def __iter__(self) -> Iterator[int]:
        for chunk in self._chunks:
            yield from chunk

    @property
    def first(self) -> int:
        """The lowest position, 0 when there is none."""
        return next((chunk[0] for chunk in self._chunks if chunk), 0)

    @property
    def last(self) -> int:
        """The highest position, 0 when there is none."""
        return next((chunk[-1] for chunk in reversed(self._chunks) if chunk), 0)

    def __contains__(self, position: object) -> bool:
        assert isinstance(position, int)
        chunk = self._chunk_for(position)
        if chunk is None:
            return False
        return chunk[bisect_left(chunk, position)] == position

    def insert(self, position: int) -> None:
        """Insert a position at its place, unless it is here already."""
        chunk = self._chunk_for(position)
        if chunk is None:
            self.append(position)
            return
        at = bisect_left(chunk, position)
        if chunk[at] != position:
            chunk.insert(at, position)
            self.count += 1

    def discard(self, position: int) -> bool:
        """Remove one position; returns whether it was here."""
        chunk = self._chunk_for(position)
        if chunk is None:
            return False
        at = bisect_left(chunk, position)
        if chunk[at] != position:
            return False
        del chunk[at]
        self.count -= 1
        if not chunk and chunk is not self._last:
            self._chunks.remove(chunk)
        return True

    def _chunk_for(self, position: int) -> array[int] | None:
        """The first chunk that reaches `position`; None when it is beyond all."""
        at = self._index_for(position)
        return self._chunks[at] if at < len(self._chunks) and self._chunks[at] else None

    def _index_for(self, position: int) -> int:
        """The index of the first chunk that reaches `position`, or beyond the last."""
        chunks = self._chunks
        if chunks[0] and chunks[0][-1] >= position:
            return 0
        return bisect_left(chunks, position, hi=len(chunks) - (not self._last), key=_LAST)

    def _overlaps(self, wanted: Sequence[int]) -> Iterator[tuple[array[int], list[int]]]:
        """(chunk, those of `wanted` in it) for each chunk that has any."""
        for chunk in islice(self._chunks, self._index_for(wanted[0]) if wanted else None, None):
            if not wanted or not chunk or chunk[0] > wanted[-1]:
                return
            near = wanted[bisect_left(wanted, chunk[0]) : bisect_right(wanted, chunk[-1])]
            found = [position for position in near if chunk[bisect_left(chunk, position)] == position]
            if found:
                yield chunk, found

    def after(self, position: int) -> Iterator[int]:
        """Positions beyond `position`, in order; chunks before it are not read."""
        for chunk in self._chunks:
            if chunk and chunk[-1] > position:
                yield from chunk[bisect_right(chunk, position) :]

    def before(self, position: int) -> Iterator[int]:
        """Positions below `position`, the highest first; chunks behind it are not read."""
        for chunk in reversed(self._chunks):
            if chunk and chunk[0] < position:
                yield from reversed(chunk[: bisect_left(chunk, position)])


def sequence_of(message: Message) -> int:
    """The place of a message in its lane, as a sort key."""
    return message.sequence


def is_pageable(lane: Lane, message: Message) -> bool:
    """Return whether the place of a message among paged ones follows from its position."""
    return message.recorded and message.sequence - message.position == lane.shift


class Lane:
    """The messages of one priority."""

    __slots__ = (
        "attempts",
        "average_bytes",
        "delivered_up_to",
        "loading",
        "paged",
        "priority",
        "ready",
        "returned",
        "scan",
        "shift",
    )

    #: assumed size of bodies before any was read, in bytes: large, so that the first run is short
    UNKNOWN_SIZE = 64 * 1024

    def __init__(self, priority: int) -> None:
        self.priority = priority
        self.returned: list[tuple[int, Message]] = []  # a heap by sequence
        self.ready: deque[Message] = deque()
        self.loading: array[int] = array("Q")
        self.paged = Positions()
        #: running average of the sizes of paged bodies, from which the length of runs read back follows
        self.average_bytes = self.UNKNOWN_SIZE
        #: attempts of messages that are not in memory, by position, where they do not follow from
        #: `delivered_up_to`
        self.attempts: dict[int, int] = {}
        #: every recorded message up to this position was delivered at least once
        self.delivered_up_to = 0
        #: order of a recorded message minus its position: the number of unrecorded messages so far
        self.shift = 0
        #: the `selective.state.LaneScan` of the lane; only selective delivery sets it
        self.scan: Any = None

    def __len__(self) -> int:
        return len(self.returned) + len(self.ready) + len(self.loading) + self.paged.count

    def page(self, position: int) -> None:
        """Put a message outside memory into its place. Those behind it that are being read back are paged
        again, or they would be delivered before it."""
        behind = bisect_left(self.loading, position)
        for later in self.loading[behind:]:
            self.paged.insert(later)
        del self.loading[behind:]
        self.paged.insert(position)

    def attempts_of(self, position: int) -> int:
        """The known number of delivery attempts of a message that is not in memory."""
        return self.attempts.get(position, 1 if position <= self.delivered_up_to else 0)

    def has_untried(self, up_to: int) -> bool:
        """Return whether a recorded message up to the position `up_to` waits that was never delivered."""
        if any(message.position <= up_to and not message.attempts for message in self.in_memory()):
            return True
        beyond = takewhile(lambda position: position <= up_to, self.paged.after(self.delivered_up_to))
        unread = [
            *(position for position in self.loading if self.delivered_up_to < position <= up_to),
            *beyond,
        ]
        return any(position not in self.attempts for position in unread)

    def in_memory(self) -> Iterator[Message]:
        """The messages whose bodies are in memory, in order. A returned message may be behind one that is
        ready: consumers with selectors passed over that one, and have left."""
        returned = [message for _, message in sorted(self.returned, key=itemgetter(0))]
        return merge(returned, self.ready, key=sequence_of) if returned else iter(self.ready)

    @property
    def unrecorded(self) -> int:
        """The number of messages that are not recorded; all of them are in memory."""
        returned = sum(not message.recorded for _, message in self.returned)
        return returned + countOf(map(_RECORDED, self.ready), False)

    def first(self) -> Message | None:
        """The next message in memory, if any."""
        if self.returned and (not self.ready or self.returned[0][0] < self.ready[0].sequence):
            return self.returned[0][1]
        return self.ready[0] if self.ready else None

    def pop_first(self) -> Message | None:
        """Remove and return the next message in memory, if any."""
        first = self.first()
        if first is None:
            return None
        return self.ready.popleft() if self.ready and self.ready[0] is first else heappop(self.returned)[1]
