"""The port of a shared store: a database in which a journal is kept, and which grants it to one holder.

All methods block: `SharedJournal` calls them in threads. Each store has one contract suite to keep.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol

from broker_app.journal.errors import JournalError, JournalFailed, JournalInUse


class Holder(NamedTuple):
    """The broker that asks for the journal: `name` is unique among processes, `address` what clients use."""

    name: str
    address: str = ""


class Grant(NamedTuple):
    """A lease: `epoch` is larger than that of every holder before."""

    epoch: int
    tag: int
    created_us: int


class LeaseState(NamedTuple):
    """The lease as it is stored, by the clock of the store: `left_s` is negative when it has expired, and 0
    when its holder has given it back (`is_released`)."""

    holder: Holder
    epoch: int
    left_s: float
    is_released: bool = False


class StoredRow(NamedTuple):
    """One stored frame: a whole batch, or, in a carry segment, those of its records at `positions`."""

    segment: int
    first_position: int
    records: int
    size: int
    positions: Sequence[int] | None


class LogExtent(NamedTuple):
    """The positions of the log from `low` to before `end`: without a gap, and durable. `tag` is that of the
    journal, `epoch` that of its last holder."""

    tag: int
    epoch: int
    low: int
    end: int


class LogBatch(NamedTuple):
    """One batch, as it is appended to a segment."""

    first_position: int
    records: int
    frame: bytes


class Carried(NamedTuple):
    """The survivors of one batch, as they go into a carry segment."""

    first_position: int
    positions: Sequence[int]
    frame: bytes


class Note(NamedTuple):
    """A small document that brokers exchange through the journal; `age_s` since it was written."""

    content: bytes
    age_s: float


class LeaseHeld(JournalInUse):
    """Another broker holds the journal; `state` says which, and for how long."""

    def __init__(self, state: LeaseState) -> None:
        holder = state.holder
        place = f" at {holder.address}" if holder.address else ""
        super().__init__(
            f"{holder.name}{place} holds this journal for {max(0.0, state.left_s):.1f} s more, epoch "
            f"{state.epoch}; stop it, or start this broker as its mirror (role -1)"
        )
        self.state = state


class Fenced(JournalFailed):
    """Another broker has taken the journal over; nothing more was written."""


class Lost(JournalFailed):
    """The store has lost batches that it had confirmed; nothing more was written."""

    def __init__(self, store: str, end: int) -> None:
        super().__init__(
            f"{store}: the journal has lost batches before position {end}, which the store had confirmed: "
            "its server was replaced by one without them, such as a replica that is not synchronous; start "
            "this broker again to continue with what is stored"
        )


class Unreachable(JournalError):
    """The store did not answer; whether it carried out the request is not known."""


class StoreFull(JournalError):
    """The store has no space for what was to be written."""


#: a server that acknowledges no packet is given up after so many seconds, however long a command may take:
#: while nothing is sent, it is asked for one after the first, and at intervals then
SILENT_S, PROBE_AFTER_S, PROBE_EVERY_S = 10, 4, 2
PROBES = (SILENT_S - PROBE_AFTER_S) // PROBE_EVERY_S


class Store(Protocol):
    """Call order: `acquire`, then the others; `release` at the end.

    `append`, `append_all`, `carry`, `put_snapshot` and `put_holder_note` raise Fenced, and change nothing,
    when the lease has another holder or epoch. The holder counts, too: a replica that replaced the server may
    grant an epoch again.
    All methods raise Unreachable and JournalFailed.
    """

    description: str  # names the store in errors and logs, without secrets

    def acquire(self, holder: Holder, lease_s: float, *, force: bool = False) -> Grant:
        """Take the lease if it is free or has expired, or in any case with `force`. Raises LeaseHeld."""
        ...

    def adopt(self, origin: Grant) -> Grant:
        """Continue another journal in this one, which is empty: with the tag and the time of creation of
        `origin`, and no smaller an epoch. Returns the lease as it is now. Raises Fenced."""
        ...

    def renew(self, lease_s: float) -> None:
        """Extend the lease. Raises Fenced when another broker has it."""
        ...

    def release(self) -> None:
        """Let the lease expire now, if it is still held, and close all connections."""
        ...

    def interrupt(self) -> None:
        """Fail calls that wait for an answer, as far as possible, and all later ones, with Unreachable.
        May be called in any thread."""
        ...

    def lease(self) -> LeaseState | None:
        """The lease as it is; None if it was never held. Needs no `acquire`."""
        ...

    def tag(self) -> int | None:
        """The tag of the journal; None if it was never held. Needs no `acquire`."""
        ...

    def rows(self) -> Iterator[StoredRow]:
        """All stored frames by segment, each in the order of positions, without their content."""
        ...

    def frames(self, position: int) -> Iterator[bytes]:
        """The frames of all batches from `position` on, in order, as far as they are stored when they are
        reached. Cheap when there are none. Needs no `acquire`."""
        ...

    def extent(self) -> LogExtent | None:
        """The positions that `frames` has without a gap; None if the journal was never held. Needs no
        `acquire`."""
        ...

    def batch_start(self, position: int) -> int | None:
        """The first position of the batch in which a position is; None if it is not in the log. Needs no
        `acquire`."""
        ...

    def append(self, segment: int, first_position: int, count: int, frame: bytes) -> None:
        """Store a batch durably. Repeating it after Unreachable is harmless.

        Raises StoreFull, and Lost if confirmed batches before it are gone.
        """
        ...

    def append_all(self, segment: int, batches: Sequence[LogBatch]) -> None:
        """Store batches of one segment durably, in fewer steps than one by one; batches before them may be
        missing. After an error, some of them may be stored. Raises StoreFull. Repeating it is harmless."""
        ...

    def load(self, keys: Iterable[tuple[int, int]]) -> dict[tuple[int, int], bytes]:
        """Frames by (segment, first position); those that are gone are left out."""
        ...

    def carry(self, segment: int, carried: Sequence[Carried], sources: Sequence[int]) -> None:
        """Store survivors as a carry segment and delete the segments that they come from, in one step."""
        ...

    def delete(self, segments: Sequence[int]) -> None:
        """Delete segments that nothing needs."""
        ...

    def snapshot(self) -> tuple[int, bytes] | None:
        """The newest snapshot and its position; None without one. Needs no `acquire`."""
        ...

    def snapshot_position(self) -> int | None:
        """The position of the newest snapshot; None without one. Needs no `acquire`."""
        ...

    def put_snapshot(self, position: int, parts: Sequence[bytes]) -> None:
        """Replace the snapshot, durably and in one step. Raises StoreFull."""
        ...

    def put_note(self, key: str, content: bytes) -> None:
        """Write a note, or replace it. Needs no `acquire`."""
        ...

    def put_holder_note(self, key: str, content: bytes) -> None:
        """Write a note, or replace it, as the holder of the lease. Raises Fenced."""
        ...

    def drop_note(self, key: str) -> None:
        """Delete a note, if it is there. Needs no `acquire`."""
        ...

    def notes(self, prefix: str) -> dict[str, Note]:
        """The notes whose keys begin with `prefix`, by key. Needs no `acquire`."""
        ...

    def free_bytes(self) -> int | None:
        """Bytes that may still be stored; None if the store does not know of a limit. Needs no `acquire`."""
        ...

    def statistics(self) -> dict[str, int]:
        """Counters and gauges, for telemetry; cheap, and from memory."""
        ...


class ErasableStore(Store, Protocol):
    """A store whose journal can be deleted as a whole."""

    def erase(self) -> None:
        """Delete the journal with all that belongs to it, as the holder of the lease, and close all
        connections. Its name can be used again. What is left by a crash in between is deleted when it is
        acquired and erased once more. Raises Fenced."""
        ...
