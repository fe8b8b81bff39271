"""Reads from a shared store: frames are fetched in a thread, and the last ones kept in memory."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from functools import partial
from typing import NamedTuple

from broker_app.base.large_record import LargeRecord, bytes_of
from broker_app.journal import codec
from broker_app.journal.errors import Busy, NoSuchPosition
from broker_app.journal.log.frame_loader import APART_BYTES, HEAD_BYTES, BodyAt
from broker_app.journal.log.segment import Segment, SegmentIndex
from broker_app.journal.port import Damaged, Found
from broker_app.journal.store import Store, Unreachable
from broker_app.journal.worker import CallSoon, Worker

#: the segment and first position of a frame
Key = tuple[int, int]
#: the records of a frame by position, or the reason why they cannot be read; the frame until it is read first
Content = dict[int, bytes] | str | bytes
_ENTRY_BYTES = 100  # of memory a record, in addition to its content
#: bytes of frames that are fetched in one query, or one request
QUERY_BYTES = 8 * 1024 * 1024


class _Request(NamedTuple):
    positions: Sequence[int]
    found: Found


class _Place(NamedTuple):
    """The frame of a position with its size, and the positions from `low` to before `high` that are in it,
    too."""

    key: Key
    size: int
    low: int
    high: int


class FrameReader:
    """Answers reads from the cache at once, others when their frames have been fetched: those of several
    requests in one query of at most `QUERY_BYTES`, or those of one. Large frames are opened in the thread
    that fetches them; with `body_at`, a record that is alone in one is in two parts (`LargeRecord`)."""

    def __init__(
        self,
        store: Store,
        index: SegmentIndex,
        cache_bytes: int,
        call_soon_threadsafe: CallSoon | None,
        body_at: BodyAt | None = None,
    ) -> None:
        self._store = store
        self._index = index
        self._body_at = body_at
        self._cache: OrderedDict[Key, Content] = OrderedDict()
        self._sizes: dict[Key, int] = {}
        self._cache_bytes = cache_bytes
        self._cached = 0
        self._worker = Worker("journal-read", call_soon_threadsafe)
        self._waiting: list[_Request] = []
        self._fetching = False
        #: numbers of segments that are being replaced or deleted in the store
        self._leaving: set[int] = set()
        #: True while a frame of one of these is missing: its records may be in another segment already
        self._paused = False
        #: queries so far
        self.loads = 0

    def read(self, positions: Sequence[int], found: Found) -> None:
        """See `port.Journal.read`."""
        self._waiting.append(_Request(positions, found))
        if not self._fetching:
            self._serve()

    def add(self, segment: Segment, first_position: int, frame: bytes) -> None:
        """Keep a frame that was just written: a backlog that grows is read back soon."""
        self._keep((segment.sequence, first_position), frame, len(frame) + _ENTRY_BYTES)

    def expect_loss(self, segments: Iterable[Segment]) -> None:
        """Wait with frames of segments that are replaced or deleted from now on, until `settle` is called."""
        self._leaving = {segment.sequence for segment in segments}

    def forget(self, segment: Segment) -> None:
        """Drop the frames of a deleted segment, which is not in the index any more."""
        for key in [key for key in self._cache if key[0] == segment.sequence]:
            del self._cache[key]
            self._cached -= self._sizes.pop(key)

    def settle(self) -> None:
        """Go on: the index has what the store has."""
        self._leaving.clear()
        self._paused = False
        if not self._fetching:
            self._serve()

    def close(self) -> None:
        """End the fetch that is under way; requests that wait are not answered."""
        self._waiting.clear()
        self._worker.close()

    def _serve(self) -> None:
        """Answer the requests whose frames are here, and fetch frames for the next ones."""
        while self._waiting and not self._fetching:
            requests, self._waiting = self._waiting, []
            for request in requests:  # who takes an answer may read again, at once
                if self._missing(request) is not None:
                    self._waiting.append(request)
            if self._paused or self._fetching:
                return
            self._evict()
            missing = self._next_query()
            if missing:
                self._fetching = True
                self.loads += 1
                self._worker.submit(partial(self._load, missing), partial(self._fetched, missing))

    def _next_query(self) -> list[Key]:
        """The frames to fetch now: those of the first request, and of others as far as they are not too many.
        All of a request are fetched together, for it is answered from the cache."""
        found: dict[Key, int] = {}
        size = 0
        for request in self._waiting:
            more = self._missing(request) or {}
            more_bytes = sum(length for key, length in more.items() if key not in found)
            if not found or size + more_bytes <= QUERY_BYTES:
                found |= more
                size += more_bytes
            if size >= QUERY_BYTES:
                break
        return list(found)

    def _missing(self, request: _Request) -> dict[Key, int] | None:
        """The frames that a request still needs, with their bytes; None when it was answered."""
        keys: dict[Key, int] = {}
        low = high = 0
        for position in request.positions:
            if low <= position < high:
                continue
            frame = self._frame_of(position)
            if frame is None:
                request.found(
                    None, NoSuchPosition(position, "nothing is stored there (never written, or freed)")
                )
                return None
            key, size, low, high = frame
            keys[key] = size
        missing = {key: size for key, size in keys.items() if key not in self._cache}
        if not missing:
            self._answer(request)
            return None
        return missing

    def _frame_of(self, position: int) -> _Place | None:
        segment = self._index.find(position)
        if segment is None or segment.slot(position) < 0:
            return None
        number = segment.batch_of(position)
        key, size = (segment.sequence, segment.batch_positions[number]), segment.frame_length(number)
        if segment.kind == codec.CARRY:
            return _Place(key, size, position, position + 1)
        start, end = segment.slots_of_batch(number)
        return _Place(key, size, key[1], key[1] + end - start)

    def _answer(self, request: _Request) -> None:
        records: list[bytes | Damaged] = []
        low = high = 0
        content: dict[int, bytes] | str = ""
        for position in request.positions:
            if not low <= position < high:
                frame = self._frame_of(position)
                assert frame is not None
                key, _, low, high = frame
                content = self._open(key)
            if isinstance(content, str):
                records.append(Damaged(position, content))
            elif position in content:
                records.append(content[position])
            else:
                request.found(None, NoSuchPosition(position, "it was freed, and its space reclaimed"))
                return
        request.found(records, None)

    def _open(self, key: Key) -> dict[int, bytes] | str:
        """The records of a cached frame."""
        content = self._cache[key]
        self._cache.move_to_end(key)
        if not isinstance(content, bytes):
            return content
        found = self._opened(key, content)
        if isinstance(found, dict):
            self._cached += _ENTRY_BYTES * len(found)
            self._sizes[key] += _ENTRY_BYTES * len(found)
        self._cache[key] = found
        return found

    def _opened(self, key: Key, frame: bytes) -> dict[int, bytes] | str:
        """The records of a frame, or why they cannot be read."""
        found = records_of(key[0], frame)
        if found is None:
            return f"{self._store.description}: the batch at position {key[1]} is damaged"
        return found

    def _load(self, keys: Sequence[Key]) -> dict[Key, Content]:
        """Fetch frames, and open those that are large; in the thread."""
        found: dict[Key, Content] = dict(self._store.load(keys))
        for key, frame in found.items():
            if isinstance(frame, bytes) and len(frame) > APART_BYTES:
                alone = _record_apart(key, frame, self._body_at) if self._body_at is not None else None
                found[key] = {key[1]: alone} if alone is not None else self._opened(key, frame)
        return found

    def _fetched(
        self, keys: Sequence[Key], frames: dict[Key, Content] | None, error: Exception | None
    ) -> None:
        if frames is None:
            self._fetching = False
            requests, self._waiting = self._waiting, []
            failure = Busy(str(error)) if isinstance(error, Unreachable) else error
            for request in requests:
                request.found(None, failure)
            return
        for key in keys:
            frame = frames.get(key)
            if frame is not None:
                self._keep(key, frame, _size_of(frame))
            elif key[0] in self._leaving:
                self._paused = True
            elif any(segment.sequence == key[0] for segment in self._index):
                missing = f"{self._store.description}: the batch at position {key[1]} is missing"
                self._keep(key, missing, _ENTRY_BYTES)
        self._fetching = False  # only now: what was fetched must not be dropped before it was read
        self._serve()
        self._evict()

    def _keep(self, key: Key, content: Content, size: int) -> None:
        self._cached += size - self._sizes.get(key, 0)
        self._cache[key], self._sizes[key] = content, size
        self._cache.move_to_end(key)
        self._evict()

    def _evict(self) -> None:
        """Drop what was used longest ago; not during a fetch, whose requests may need it, too."""
        if self._fetching:
            return
        while self._cached > self._cache_bytes and len(self._cache) > 1:
            key, _ = self._cache.popitem(last=False)
            self._cached -= self._sizes.pop(key)


def _size_of(content: Content) -> int:
    """The bytes of memory that it takes."""
    if isinstance(content, dict):
        return bytes_of(content.values()) + _ENTRY_BYTES * (1 + len(content))
    return (len(content) if isinstance(content, bytes) else 0) + _ENTRY_BYTES


def _record_apart(key: Key, content: bytes, body_at: BodyAt) -> LargeRecord | None:
    """The only record of a frame, whose body is in memory of its own: nothing has to copy it; None for
    another frame, or a damaged one."""
    frame = codec.decode_frame(content, 0)
    if frame is None or frame.segment_id != key[0] or frame.count != 1 or frame.flags & codec.CARRIED:
        return None
    at = frame.records_at
    body = at + body_at(content[at : at + HEAD_BYTES])
    if not at < body < frame.length == len(content):
        return None
    record = LargeRecord(content[at:body], content[body:])
    return record if codec.is_whole_apart((content[:at], record, record.body), frame) else None


def records_of(segment: int, content: bytes) -> dict[int, bytes] | None:
    """The records of a frame by position; None if it is damaged or of another segment."""
    frame = codec.decode_frame(content, 0)
    if frame is None or frame.segment_id != segment or not codec.is_whole(content, 0, frame):
        return None
    if frame.flags & codec.CARRIED:
        carried = codec.carried_records(content, frame.records_at, frame.length)
        return {position: content[start:end] for position, start, end in carried}
    starts = codec.record_starts(content, frame.records_at, frame.length)
    return {frame.first_position + i: content[starts[i] : starts[i + 1]] for i in range(frame.count)}
