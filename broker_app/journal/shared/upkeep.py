"""Upkeep of a shared journal: snapshots; dead segments are deleted, and mostly dead ones replaced."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from threading import Event

from broker_app.journal.errors import JournalDamaged
from broker_app.journal.log.compaction import choose_sources, settled
from broker_app.journal.log.relocation import RelocationSource, take_over
from broker_app.journal.log.retention import Retention
from broker_app.journal.log.segment import Segment, SegmentIndex
from broker_app.journal.log.survivors import collect, first_live_key
from broker_app.journal.port import FIRST_POSITION, Done
from broker_app.journal.shared.frame_reader import FrameReader
from broker_app.journal.store import Store, Unreachable
from broker_app.journal.worker import CallSoon, Worker

#: seconds between two copies: a segment that is mostly dead is often dead soon, and costs nothing then
COPY_INTERVAL_S = 5.0
#: seconds until a store that could not be reached is asked again whether it has replaced segments
ASK_AGAIN_S = 1.0


class Upkeep:
    """Runs one thing at a time, in a thread of its own. `draw_sequence` numbers carry segments."""

    def __init__(
        self,
        store: Store,
        index: SegmentIndex,
        reader: FrameReader,
        *,
        segment_bytes: int,
        retention: Callable[[], Retention],
        draw_sequence: Callable[[], int],
        call_soon_threadsafe: CallSoon | None,
    ) -> None:
        self._store = store
        self._index = index
        self._reader = reader
        self._segment_bytes = segment_bytes
        self._retention = retention
        self._draw_sequence = draw_sequence
        self._worker = Worker("journal-upkeep", call_soon_threadsafe)
        self._copy_interval_s = COPY_INTERVAL_S if call_soon_threadsafe is not None else 0.0
        self._clock = time.monotonic
        self._next_copy_at = 0.0
        self._closing = Event()
        #: the segment of the last batch that was stored: the next one may be appended to it
        self.active: Segment | None = None
        self._writing = self._copying = False
        #: set when it is known which records are needed
        self.enabled = False
        #: the position of the snapshot: no replay reads before it
        self.position = FIRST_POSITION
        #: the last failure that did not stop the journal
        self.error: Exception | None = None
        self.counters = dict.fromkeys(
            ("snapshots", "segments_deleted", "segments_copied", "bytes_copied", "background_failures"), 0
        )

    def snapshot(self, position: int, parts: Sequence[bytes], done: Done) -> None:
        """Store the state before `position`. Raises ValueError while another one is being written."""
        if self._writing:
            raise ValueError("a snapshot is being written already")
        self._writing = True
        self._worker.submit(
            partial(self._store.put_snapshot, position, parts), partial(self._written, position, done)
        )

    def _written(self, position: int, done: Done, _: None, error: Exception | None) -> None:
        self._writing = False
        if error is None:
            self.position = position
            self.counters["snapshots"] += 1
            self.run()
        else:
            self._failed(error)
        done(error)

    def run(self) -> None:
        """Delete what is dead, start copying what is mostly dead."""
        if self._closing.is_set() or not self.enabled or self._copying:
            return
        reachable = settled(list(self._index), self.active, self.position, self._retention())
        dead = [segment for segment in reachable if not segment.live_count]
        if dead:
            self._begin(dead)
            self._worker.submit(
                partial(self._store.delete, [segment.sequence for segment in dead]),
                partial(self._deleted, dead),
            )
            return
        if self._clock() < self._next_copy_at:
            return
        sources = choose_sources(list(self._index), reachable, self._segment_bytes)
        if sources:
            self._begin(sources)
            self._next_copy_at = self._clock() + self._copy_interval_s
            taken = [RelocationSource(segment, bytes(segment.live)) for segment in sources]
            self._worker.submit(
                partial(self._copy, taken, self._draw_sequence()), partial(self._copied, taken)
            )

    def would_free(self, replay_start: int) -> bool:
        """True if space would be freed if no replay read before `replay_start`."""
        return self.enabled and any(
            segment.next_position > self.position and segment.is_mostly_dead()
            for segment in settled(list(self._index), self.active, replay_start, self._retention())
        )

    def close(self) -> None:
        """Finish the snapshot that is being written; cancel copying."""
        self._closing.set()
        self._worker.close()

    def _begin(self, segments: Sequence[Segment]) -> None:
        self._copying = True
        self._reader.expect_loss(segments)

    def _end(self) -> None:
        self._copying = False
        self._reader.settle()

    def _deleted(self, dead: Sequence[Segment], _: None, error: Exception | None) -> None:
        if error is None:
            self._drop(dead)
        self._end()
        if error is not None:
            self._failed(error)
            return
        self.counters["segments_deleted"] += len(dead)
        self.run()

    def _copy(self, taken: Sequence[RelocationSource], sequence: int) -> Segment | None:
        """In the worker's thread: replace segments in the store; None if that is not worth it."""
        collected = collect(self._store, taken, sequence, self._closing.is_set)
        if collected is None:
            return None
        carry, carried = collected
        try:
            self._store.carry(sequence, carried, [source.segment.sequence for source in taken])
        except Exception:
            if not self._are_replaced(taken):
                raise
        return carry

    def _are_replaced(self, sources: Sequence[RelocationSource]) -> bool:
        """In the worker's thread: ask the store whether segments were replaced although an error came. It is
        asked until it answers: what the index has must not differ from what the store has."""
        keys = [first_live_key(source) for source in sources]
        while True:
            try:
                return len(self._store.load(keys)) < len(keys)
            except Unreachable:
                if self._closing.wait(ASK_AGAIN_S):
                    raise

    def _copied(
        self, taken: Sequence[RelocationSource], carry: Segment | None, error: Exception | None
    ) -> None:
        if self._closing.is_set():
            return
        sources = [source.segment for source in taken]
        if error is not None:
            self._failed(error)
            if not isinstance(error, JournalDamaged):
                self._end()
                return
        if carry is None:
            for segment in sources:
                segment.spared = segment.live_count
        else:
            take_over(carry, taken)
            self._drop(sources)
            self._index.add(carry)
            self.counters["segments_copied"] += len(sources)
            self.counters["bytes_copied"] += carry.end
        self._end()
        self.run()

    def _drop(self, segments: Sequence[Segment]) -> None:
        for segment in segments:
            self._index.remove(segment)
            self._reader.forget(segment)

    def _failed(self, error: Exception) -> None:
        """Background work has failed. The log still holds everything: continue, and report it."""
        self.error = error
        self.counters["background_failures"] += 1
