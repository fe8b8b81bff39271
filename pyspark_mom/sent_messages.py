"""Finds messages by their positions, for the events whose records know nothing but these.

Most of them were sent a short time before, so the frames that were read last are kept. Others are read again,
a run of positions at a time.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

from broker_app.core.durability import records
from broker_app.core.message import MessageIds
from broker_app.journal import codec
from pyspark_mom.transport import StoredFrame

#: bytes of frames that are kept, about
_KEPT_BYTES: Final = 32 * 1024 * 1024
#: positions that lie at most so far apart are read as one run: records between them cost less than a request
_MAX_GAP: Final = 1_000

#: the whole frames that overlap the positions from one to before another, as far as they are still stored
ReadFrames = Callable[[int, int], Iterable[StoredFrame]]


class Sent(NamedTuple):
    """The id of a message, and the address it was sent to if that is another than its queue; else empty."""

    id: str
    address: str


class SentMessages:
    """The messages of a journal with this tag, whose frames `read` gives."""

    def __init__(self, tag: int, read: ReadFrames) -> None:
        self._ids = MessageIds(tag)
        self._read = read
        #: frames that follow one another, and the first position of each
        self._frames: list[StoredFrame] = []
        self._firsts: list[int] = []
        self._bytes = 0

    def keep(self, found: StoredFrame) -> None:
        """Keep a frame that was read; it follows the one before."""
        if self._bytes >= _KEPT_BYTES:
            self._forget_half()
        self._frames.append(found)
        self._firsts.append(found.frame.first_position)
        self._bytes += len(found.content)

    def _forget_half(self) -> None:
        half = (len(self._frames) + 1) // 2
        del self._frames[:half], self._firsts[:half]
        self._bytes = sum(len(found.content) for found in self._frames)

    def find(self, positions: Iterable[int]) -> dict[int, Sent]:
        """The messages at these positions that are still in the journal. Raises MomError."""
        wanted = sorted(set(positions))
        kept_at = bisect_right(wanted, self._firsts[0] - 1) if self._firsts else len(wanted)
        found: dict[int, Sent] = {}
        for run in _runs(wanted[:kept_at]):
            self._find_in(self._read(run[0], run[-1] + 1), run, found)
        rest = wanted[kept_at:]
        if rest:
            first = bisect_right(self._firsts, rest[0]) - 1
            self._find_in(self._frames[first:], rest, found)
        return found

    def _find_in(self, frames: Iterable[StoredFrame], wanted: list[int], found: dict[int, Sent]) -> None:
        """Add the messages at sorted positions that are in these frames, which are sorted, too."""
        at = 0
        for frame, content in frames:
            end = bisect_right(wanted, frame.next_position - 1, at)
            if end > at:
                self._find_in_frame(frame, content, set(wanted[at:end]), found)
            if end == len(wanted):
                return
            at = end

    def _find_in_frame(
        self, frame: codec.Frame, content: bytes, wanted: set[int], found: dict[int, Sent]
    ) -> None:
        head, at = records.unpack_head, frame.records_at
        for position in range(frame.first_position, frame.next_position):
            length, kind, _, flags, _, _ = head(content, at)
            if position in wanted and kind == records.PUBLISHED:
                found[position] = self._sent(content, at, flags, position)
            at += length

    def _sent(self, content: bytes, at: int, flags: int, position: int) -> Sent:
        id_at = at + records.PUBLISHED_SIZE
        if flags & records.HAS_ID:
            id = content[id_at : id_at + records.ID_SIZE].decode()
        else:
            id = f"{self._ids.prefix(records.time_ms(content, at)).decode()}{position:012x}"
        return Sent(id, records.address_of(content, at, flags))


def _runs(positions: list[int]) -> Iterator[list[int]]:
    """Sorted positions in runs without a large gap."""
    run: list[int] = []
    for position in positions:
        if run and position - run[-1] > _MAX_GAP:
            yield run
            run = []
        run.append(position)
    if run:
        yield run
