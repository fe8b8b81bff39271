"""Compaction: chooses the segments that are free, and those whose live records are worth copying.

A single message without a consumer must not pin the log, so segments that are mostly dead are replaced by a
carry file with their live records (`relocation`).
"""

from collections.abc import Callable, Sequence
from functools import partial
from threading import Event

from broker_app.journal import codec
from broker_app.journal.errors import JournalDamaged, JournalError, NoSpace
from broker_app.journal.files import Files
from broker_app.journal.log.reader import Reader
from broker_app.journal.log.relocation import Relocation, RelocationSource, take_over
from broker_app.journal.log.retention import NOTHING_KEPT, Retention
from broker_app.journal.log.segment import MOSTLY_DEAD, Segment, SegmentIndex
from broker_app.journal.log.segment_pool import SegmentPool
from broker_app.journal.worker import CallSoon, Worker

_MAX_SOURCES = 16
_COPY_PAUSE = 3.0  # copying rests so many times as long as it works


class Compactor:
    """Takes segments out of the catalogue when nothing needs them, and carry files into it.

    Assumes: `run` is called after each snapshot, and when a segment has become mostly dead, or dead.
    """

    def __init__(
        self,
        files: Files,
        catalogue: SegmentIndex,
        reader: Reader,
        supply: SegmentPool,
        *,
        segment_bytes: int,
        retention: Callable[[], Retention],
        call_soon_threadsafe: CallSoon | None,
        failed: Callable[[Exception], None],
    ) -> None:
        self._files = files
        self._catalogue = catalogue
        self._reader = reader
        self._supply = supply
        self._segment_bytes = segment_bytes
        self._retention = retention
        self._threaded = call_soon_threadsafe is not None
        self._failed = failed
        self._worker = Worker("journal-copy", call_soon_threadsafe)
        self._closing = Event()
        self._active: Segment | None = None
        self._horizon = 0
        #: set when it is known which records are needed
        self.enabled = False
        self.history_yields = False  # what is kept as history may go, because space is short
        self.copying = False
        self.segments_copied = self.bytes_copied = 0

    def run(self, active: Segment, replay_start: int) -> None:
        """Free what is dead, start copying what is mostly dead.

        `active` is being written, no replay reads before `horizon`. Reads segments, not positions.
        """
        self._active, self._horizon = active, replay_start
        if not self._closing.is_set():
            self._run()

    def would_free(self, active: Segment, replay_start: int) -> bool:
        """True if space would be freed if no replay read before `replay_start`."""
        return any(
            segment.next_position > self._horizon and segment.is_mostly_dead() and not segment.busy
            for segment in settled(list(self._catalogue), active, replay_start, self._kept)
        )

    @property
    def _kept(self) -> Retention:
        return NOTHING_KEPT if self.history_yields else self._retention()

    def _run(self) -> None:
        reachable = settled(list(self._catalogue), self._active, self._horizon, self._kept)
        for segment in reachable:
            if segment.live_count == 0 and not segment.busy:
                self._release(segment)
        if not self.copying:
            self._copy([segment for segment in reachable if segment.live_count])

    def close(self) -> None:
        """Cancel the copy that is in progress."""
        self._closing.set()
        self._worker.close()

    def _release(self, segment: Segment) -> None:
        self._catalogue.remove(segment)
        self._reader.forget(segment)
        self._supply.recycle(segment)

    def _copy(self, movable: Sequence[Segment]) -> None:
        sources = choose_sources(list(self._catalogue), movable, self._segment_bytes)
        if not sources:
            return
        self.copying = True
        for segment in sources:
            segment.busy = True
        taken = [RelocationSource(segment, bytes(segment.live)) for segment in sources]
        relocation = Relocation(self._files, taken, self._supply.draw_sequence(), self._pause)
        self._worker.submit(relocation.run, partial(self._copied, taken))

    def _pause(self, worked: float) -> None:
        """In the worker's thread: leave the processor and the disk to the loop."""
        if self._threaded and self._closing.wait(worked * _COPY_PAUSE):
            raise JournalError("the copy was cancelled because the journal is being closed")

    def _copied(
        self, taken: Sequence[RelocationSource], carry: Segment | None, error: Exception | None
    ) -> None:
        self.copying = False
        sources = [source.segment for source in taken]
        for segment in sources:
            segment.busy = False
        if self._closing.is_set():
            return
        if isinstance(error, JournalDamaged):
            # Its messages are dead-lettered when they are read; until then its intact records stay.
            for segment in sources:
                segment.spared = segment.live_count
            self._failed(error)
        elif error is not None:
            if not (
                isinstance(error, NoSpace) and self._supply.release_reserve(sum(map(_expected, sources)))
            ):
                self._failed(error)
                return
        elif carry is None:
            for segment in sources:
                segment.spared = segment.live_count
        else:
            take_over(carry, taken)
            for segment in sources:
                self._release(segment)
            self._catalogue.add(carry)
            self.segments_copied += len(sources)
            self.bytes_copied += carry.end
        self._run()


def settled(
    segments: Sequence[Segment], active: Segment | None, replay_start: int, retention: Retention
) -> list[Segment]:
    """The segments before `replay_start`, in order, that are not kept for readers of the log."""
    found = []
    kept = 0
    for segment in reversed(segments):
        if segment is active or segment.next_position > replay_start:
            continue
        if segment.kind == codec.LOG:
            kept += segment.end
            if retention.keeps(segment, kept):
                continue
        found.append(segment)
    return found[::-1]


def choose_sources(
    segments: Sequence[Segment], settled_ones: Sequence[Segment], segment_bytes: int
) -> list[Segment]:
    """Neighbours that are worth being replaced by one carry file; empty if there are none.

    Neighbours, because then the ranges of positions of all segments stay disjoint and in order.
    """
    allowed = {id(segment) for segment in settled_ones}
    run: list[Segment] = []
    size = 0
    for segment in segments:
        fits = id(segment) in allowed and not segment.busy and _may_move(segment, segment_bytes)
        expected = _expected(segment)
        if not fits or size + expected > segment_bytes or len(run) == _MAX_SOURCES:
            if _worthwhile(run):
                return run
            run, size = [], 0
        if fits:
            run.append(segment)
            size += expected
    return run if _worthwhile(run) else []


def _expected(segment: Segment) -> int:
    """Bytes that the survivors of a segment will take, about."""
    return segment.end * segment.live_count // len(segment)


def _may_move(segment: Segment, segment_bytes: int) -> bool:
    small = segment.kind == codec.CARRY and segment.end * MOSTLY_DEAD < segment_bytes
    return not _is_spared(segment) and (small or segment.is_mostly_dead())


def _is_spared(segment: Segment) -> bool:
    """True if copying it was given up, and few of its records have been freed since."""
    return segment.spared > 0 and segment.live_count * 2 > segment.spared


def _mostly_dead(segment: Segment) -> bool:
    return not _is_spared(segment) and segment.is_mostly_dead()


def _worthwhile(run: Sequence[Segment]) -> bool:
    return len(run) > 1 or any(_mostly_dead(segment) for segment in run)
