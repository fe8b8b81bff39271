"""The guarantees of every journal, whatever it is stored in."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

FIRST_POSITION = 1  # of an empty journal; 0 stays free to mean "nowhere"

Done = Callable[[BaseException | None], None]


class Batch(Protocol):
    """The records of one turn of the engine, as one atomic write. The journal only reads it.

    `parts` joined are `count` records in order (`codec` frames them); a record may span several parts.
    `published` are the positions of PUBLISHED records of this batch that must be kept until freed,
    `freed` those of PUBLISHED records, of this batch or earlier ones, that are no longer needed.
    """

    first_position: int
    time_us: int
    destinations: list[str]
    parts: list[bytes]
    count: int
    published: list[int]
    freed: list[int]


@dataclass(frozen=True, slots=True)
class StoredBatch:
    """A batch as it was recorded; record i of `records` has position `first_position + i`."""

    first_position: int
    time_us: int
    epoch: int
    destinations: list[str]
    count: int
    records: bytes


@dataclass(frozen=True, slots=True)
class Damaged:
    """Takes the place of a record that cannot be read back.

    `why` names where it was stored; `time_us` is the time of its batch, 0 where not even that can be read.
    """

    position: int
    why: str
    time_us: int = 0


class Run(NamedTuple):
    """The first `length` of some positions, whose records take about `size` bytes."""

    length: int
    size: int


#: takes the records that were read, or the error
Found = Callable[[list[bytes | Damaged] | None, Exception | None], None]


class Span(NamedTuple):
    """Positions from `low` to before `end`."""

    low: int
    end: int


class LogRun(NamedTuple):
    """Whole frames of the log, one after the other, as they are stored (`codec`): those of the records from
    `position` to before `next_position`. Without frames both are the same."""

    position: int
    next_position: int
    frames: bytes


class CursorState(NamedTuple):
    """A cursor: everything before `position` was read, as reported then (µs since 1970). `lost` are positions
    that it has not read and that are no longer stored; None if there are none. `keeps_log` is false if it was
    not reported for too long."""

    position: int
    reported_us: int
    lost: Span | None
    keeps_log: bool


#: takes the frames that were read, or the error
LogFound = Callable[[LogRun | None, Exception | None], None]


@dataclass(frozen=True, slots=True)
class OpenResult:
    """The result of `open`: start from `snapshot`, then replay what follows `snapshot_position`.

    `report` has one sentence for each event that an operator should know (a torn tail that was cut, …).
    """

    snapshot: bytes | None
    snapshot_position: int
    next_position: int
    report: list[str] = field(default_factory=list)


class Journal(Protocol):
    """Call order: open, replay, set_live_positions, then any of commit, read, snapshot; close at the end.

    All methods are called from one thread (the event loop's). `done` callbacks come back in it.
    """

    epoch: int  # grows with every open; stored in every batch
    tag: int  # 26 random bits, drawn when the journal was created
    created_us: int  # when that was (µs since 1970, UTC)
    wants_snapshot: bool  # a snapshot would free space, which is short, or the journal is idle

    @property
    def is_held(self) -> bool:
        """True while no other broker can have taken the journal over; cheap, and asked before every batch."""
        ...

    @property
    def background_error(self) -> Exception | None:
        """The last failure that did not stop the journal."""
        ...

    def open(self) -> OpenResult:
        """Lock the journal for this process and find its end.

        Ensures: the journal is locked, a torn last batch is cut, `epoch` is larger than any before.
        Raises JournalInUse, JournalDamaged (nothing was changed), JournalFailed.
        """
        ...

    def replay(self) -> Iterator[StoredBatch]:
        """All batches from `OpenResult.snapshot_position` on, in order and checksummed.

        Assumes: `open` was called, `commit` was not yet. Raises JournalDamaged.
        """
        ...

    def set_live_positions(self, positions: Iterable[Sequence[int]]) -> None:
        """Report, after replay, the PUBLISHED positions that are still needed; all others are dead.

        `positions` are chunks (`array("Q")` or any sequence), in any order, each position once.
        Ensures: space may be reclaimed from now on. Raises JournalDamaged if one is not stored.
        """
        ...

    def commit(self, batch: Batch, done: Done) -> None:
        """Make the batch durable, then call `done(None)`; on failure `done(error)`.

        Assumes: one batch in flight; `batch` starts at the next position, has at least one record and
        is not changed until `done`. `done` may be called before `commit` returns.
        Ensures: after a failure every further commit fails too. Raises ValueError for a wrong batch.
        """
        ...

    def available_bytes(self) -> int:
        """Bytes that new messages may still take; 0 while they must be refused because there is no space.

        Cheap: may be asked before every batch. Ensures: what settles waiting messages can be committed
        while it is 0, as long as nothing else is; it rises again when there is space. A batch that
        finds no space nevertheless is kept, and `done` called when it could be written.
        """
        ...

    def read(self, positions: Sequence[int], found: Found) -> None:
        """Read the whole records at these PUBLISHED positions, then call `found(records, None)`, in the order
        asked; on failure `found(None, error)`: NoSuchPosition, or Busy if trying again may help. Adjacent
        positions are cheapest. `found` may be called before `read` returns.

        Assumes: they are committed and not freed (a freed one may or may not still be there).
        A record that is stored and cannot be read is Damaged; the others are returned. A large one may be a
        LargeRecord.
        """
        ...

    def measure(self, positions: Sequence[int], max_bytes: int) -> Run:
        """The run of these PUBLISHED positions, from the first on, that can be read with at most about
        `max_bytes`; one at least. Cheap: reads nothing.

        Assumes: there is at least one.
        """
        ...

    def span(self) -> Span:
        """The positions that are stored without a gap up to the end of what is durable; cheap."""
        ...

    def read_log(self, position: int, max_bytes: int, found: LogFound) -> None:
        """Read frames of the log from the one that contains `position` on, then call `found(run, None)`; on
        failure `found(None, error)`: NoSuchPosition if `position` is outside of `span`, or was let go
        meanwhile; Busy if trying again may help. `found` may be called before `read_log` returns.

        Ensures: the frames are durable, as they were written, and follow each other without a gap; at most
        `max_bytes`, unless the first is larger; fewer if the journal stores them apart; none at the end. They
        are not checked: a reader compares their checksums.
        """
        ...

    def cursors(self) -> dict[str, CursorState]:
        """The cursors of readers, by name; cheap."""
        ...

    def set_cursor(self, name: str, position: int, done: Done) -> None:
        """Store durably that the reader `name` has read everything before `position`, then call `done(None)`;
        on failure `done(error)`: NoSuchPosition outside of `span`, TooManyCursors, or what storing it raised.
        Raises ValueError for an invalid name.

        Ensures: the log is kept from the smallest cursor on, as far as there is space for it, and as long as
        the cursor is reported.
        """
        ...

    def drop_cursor(self, name: str, done: Done) -> None:
        """Forget a cursor, if it is there; `done` as for `set_cursor`."""
        ...

    def snapshot(self, position: int, parts: Sequence[bytes], done: Done) -> None:
        """Store the state of everything before `position`, so that replay may start there.

        The state is the `parts` joined. It may contain what later, committed records have changed.

        Assumes: `position` is the start of a batch or the next position, everything before it is
        committed, and no other snapshot is being written. Raises ValueError otherwise.
        Ensures: atomic; durable when `done(None)` is called. After `done(error)` the former snapshot
        stands and the journal continues.
        """
        ...

    def statistics(self) -> dict[str, int]:
        """Counters and gauges, for telemetry; more than these, which every journal has.

        `commits`, `records`, `bytes_written` and `snapshots` since it was opened; `epoch`, `next_position`,
        `snapshot_position`, `live_records`, `bytes_stored`, `bytes_on_disk`.
        """
        ...

    def close(self) -> None:
        """Finish what is in progress and release the journal; a second call does nothing."""
        ...
