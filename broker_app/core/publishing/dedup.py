"""Deduplication: the dedup-ids that destinations have seen within their window, about 50 bytes each."""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple

from broker_app.core.storage.rows import Rows

NEVER_EXPIRES_MS = 1 << 62
_HALVES = Struct("<QQ")
_RECORDED = 1 << 63  # a bit above the position
_ENTRY = 4  # numbers of an entry: the halves of the digest, position, time in ms


class FirstMessage(NamedTuple):
    """The message that first had an id: the position and time of its id, and whether it was
    recorded."""

    position: int
    time_ms: int
    recorded: bool


class DedupWindow:
    """The ids of one destination, in the order of arrival; the oldest are dropped first."""

    CHUNK = 4_096
    __slots__ = ("_chunks", "_index", "_indexed", "_next", "_oldest", "_start")

    def __init__(self) -> None:
        self._chunks: deque[array[int]] = deque()
        self._index = Rows(2)  # (first half of the digest, number of the entry)
        self._start = 0  # the number of the first entry of the first chunk
        self._oldest = self._next = 0  # numbers of entries
        self._indexed = 0  # the number of the first entry that is not in the index

    def __len__(self) -> int:
        return self._next - self._oldest

    def find(self, digest: bytes, since_ms: int) -> FirstMessage | None:
        """The message that arrived with this id after `since_ms`."""
        self.index()
        first, second = _HALVES.unpack(digest)
        for _, number in self._index.find(first):
            _, other, position, time_ms = self._entry(number)
            if other == second and time_ms > since_ms:
                return FirstMessage(position & ~_RECORDED, time_ms, bool(position & _RECORDED))
        return None

    def add(self, digest: bytes, seen: FirstMessage) -> None:
        """Add an id behind all others."""
        self.index()
        first, second = _HALVES.unpack(digest)
        self._append((first, second, seen.position | (_RECORDED if seen.recorded else 0), seen.time_ms))
        self._index.add(first, self._indexed)
        self._indexed = self._next

    def append_recorded(self, first: int, second: int, position: int, time_ms: int) -> None:
        """Add the id of a recorded message behind all others, given by the halves of its digest. Where many
        are added, to index all of them at once costs less."""
        self._append((first, second, position | _RECORDED, time_ms))

    def _append(self, entry: tuple[int, int, int, int]) -> None:
        if (self._next - self._start) % self.CHUNK == 0:
            self._chunks.append(array("Q"))
        self._chunks[-1].extend(entry)
        self._next += 1

    def index(self) -> None:
        """Have all ids found that were appended."""
        left = self._next - self._indexed
        if left > len(self._index):
            self._index_all()
        elif left:
            for number in range(self._indexed, self._next):
                self._index.add(self._entry(number)[0], number)
        self._indexed = self._next

    def _index_all(self) -> None:
        """Replace the index by one of all ids: sorted rows are added at once."""
        firsts: array[int] = array("Q")
        for chunk in self._chunks:
            firsts += chunk[::_ENTRY]
        start = self._start
        order = sorted(range(self._oldest - start, self._next - start), key=firsts.__getitem__)
        self._index = Rows(2)
        self._index.extend(
            array("Q", map(firsts.__getitem__, order)), array("Q", [place + start for place in order])
        )

    @property
    def oldest_ms(self) -> int:
        """The time when the oldest id arrived. Assumes: there is one."""
        return self._entry(self._oldest)[3]

    def drop(self) -> None:
        """Drop the oldest id."""
        if self._oldest < self._indexed:
            self._index.remove(self._entry(self._oldest)[0], self._oldest)
        else:
            self._indexed += 1
        self._oldest += 1
        if self._oldest - self._start == self.CHUNK:
            self._chunks.popleft()
            self._start = self._oldest

    def _entry(self, number: int) -> array[int]:
        chunk, place = divmod(number - self._start, self.CHUNK)
        return self._chunks[chunk][_ENTRY * place : _ENTRY * (place + 1)]

    def save(self, since_ms: int) -> Iterator[array[int]]:
        """Entries of recorded messages after `since_ms`, in chunks of four numbers an entry."""
        skip = self._oldest
        while skip < self._next and self._entry(skip)[3] <= since_ms:
            skip += 1
        for number, chunk in enumerate(self._chunks):
            begin = max(0, skip - self._start - number * self.CHUNK)
            kept = chunk[_ENTRY * begin :]
            if any(position < _RECORDED for position in kept[2::_ENTRY]):
                rows = zip(*(kept[part::_ENTRY] for part in range(_ENTRY)), strict=True)
                kept = array("Q", [number for row in rows if row[2] >= _RECORDED for number in row])
            if kept:
                yield kept


class DedupWindows:
    """The windows of all destinations. `most` limits the ids of one destination, `most_together` those of
    all; beyond it, the window of the destination with the new id gets shorter. Beyond `MAX_DESTINATIONS`, the
    oldest window is dropped."""

    MAX_DESTINATIONS = 10_000
    #: expired ids that are dropped with each new one, so that never many are dropped at once
    EXPIRED_PER_ADD = 4
    #: windows per sweep, and ids that are dropped in each
    WINDOWS_PER_SWEEP, IDS_PER_SWEEP = 64, 512

    def __init__(self, max_ids: int, max_total: int) -> None:
        self._max_ids = max_ids
        self._max_total = max_total
        self._windows: dict[str, DedupWindow] = {}
        self._count = 0
        self._sweeping: Iterator[str] = iter(())

    def first(self, address: str, digest: bytes, now_ms: int, window_ms: int) -> FirstMessage | None:
        """The first message with this id, if any."""
        window = self._windows.get(address)
        return None if window is None else window.find(digest, now_ms - window_ms)

    def remember(
        self, address: str, digest: bytes, seen: FirstMessage, window_ms: int = NEVER_EXPIRES_MS
    ) -> None:
        """Add an id."""
        window = self._window(address)
        self._drop_expired(window, seen.time_ms - window_ms, self.EXPIRED_PER_ADD)
        self._make_room(window)
        window.add(digest, seen)

    def _window(self, address: str) -> DedupWindow:
        window = self._windows.get(address)
        if window is None:
            if len(self._windows) >= self.MAX_DESTINATIONS:
                self._count -= len(self._windows.pop(next(iter(self._windows))))
            window = self._windows[address] = DedupWindow()
        return window

    def _make_room(self, window: DedupWindow) -> None:
        """Count an id that is added next, in place of the oldest one if there are too many."""
        held = len(window)
        if held and (held >= self._max_ids or self._count >= self._max_total):
            window.drop()
        else:
            self._count += 1

    def _drop_expired(self, window: DedupWindow, until_ms: int, max_ids: int) -> None:
        while max_ids and len(window) and window.oldest_ms <= until_ms:
            window.drop()
            self._count -= 1
            max_ids -= 1

    def sweep(self, now_ms: int, window_ms: dict[str, int]) -> None:
        """Drop some of the expired ids; `window_ms` by address is how long ids are kept."""
        for address, kept_ms in window_ms.items():
            window = self._windows[address]
            self._drop_expired(window, now_ms - kept_ms, self.IDS_PER_SWEEP)
            if not len(window):
                del self._windows[address]

    def next_to_sweep(self) -> list[str]:
        """The destinations of the next sweep."""
        found = [address for _, address in zip(range(self.WINDOWS_PER_SWEEP), self._sweeping, strict=False)]
        if len(found) < self.WINDOWS_PER_SWEEP:
            self._sweeping = iter(list(self._windows))
        return [address for address in found if address in self._windows]

    def facts(self, address: str, now_ms: int, window_ms: int) -> tuple[int, int]:
        """(number of ids, for how many ms they are kept): less than `window_ms` when there are too many."""
        window = self._windows.get(address)
        if window is None:
            return 0, window_ms
        full = len(window) >= self._max_ids or self._count >= self._max_total
        return len(window), min(window_ms, now_ms - window.oldest_ms) if full else window_ms

    def addresses(self) -> list[str]:
        """The destinations with ids."""
        return list(self._windows)

    def save(self, address: str, since_ms: int) -> Iterator[array[int]]:
        """See `DedupWindow.save`; nothing for a destination without ids."""
        window = self._windows.get(address)
        return iter(()) if window is None else window.save(since_ms)

    def load(self, address: str, numbers: array[int]) -> None:
        """Restore the ids of a destination, as `save` returned them. `index` them in the end."""
        window = self._window(address)
        for at in range(0, len(numbers), _ENTRY):
            self._make_room(window)
            window.append_recorded(*numbers[at : at + _ENTRY])

    def apply(self, address: str, first: int, second: int, position: int, time_ms: int) -> None:
        """Remember the id of the record of a message that was sent to `address`. `index` it in the end."""
        window = self._windows.get(address)
        if window is None:
            window = self._window(address)
        self._make_room(window)
        window.append_recorded(first, second, position, time_ms)

    def apply_copy(self, address: str, digest: bytes, seen: FirstMessage) -> None:
        """Remember the id of the record of a copy, unless it is known: the first of several counts."""
        if self.first(address, digest, seen.time_ms, 1) is None:
            self.remember(address, digest, seen)

    def index(self) -> None:
        """Have all ids found that were restored."""
        for window in self._windows.values():
            window.index()
