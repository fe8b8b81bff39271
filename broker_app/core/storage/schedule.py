"""A schedule: due times and positions of delayed messages, 16 bytes each. Their bodies are in the journal
only."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Sequence

from broker_app.core.durability.record_reader import Reader
from broker_app.core.storage.rows import Rows


class Schedule:
    """The scheduled messages of one destination: rows of (due time in ms, position)."""

    #: assumed size of bodies before any was read, in bytes
    UNKNOWN_SIZE = 4_096
    __slots__ = ("_due_by_position", "address", "average_body_bytes", "loading", "reader", "rows")

    def __init__(self, address: str) -> None:
        self.address = address
        self.rows = Rows(2)
        #: due, and being read back: due time by position
        self.loading: dict[int, int] = {}
        #: running average of the sizes of bodies, from which the length of runs read back follows
        self.average_body_bytes = self.UNKNOWN_SIZE
        self.reader = Reader(address)
        #: due times by position, while records with only positions are applied
        self._due_by_position: dict[int, int] | None = None

    def __len__(self) -> int:
        return len(self.rows) + len(self.loading)

    @property
    def next_ms(self) -> int:
        """The time when the next message is due, without those being read back; 0 for none."""
        return self.rows.first if len(self.rows) else 0

    def take(self, now_ms: int, count: int) -> list[int]:
        """Take up to `count` due messages to be read back; returns their positions."""
        taken = self.rows.take(now_ms, count)
        self.loading = {position: due_ms for due_ms, position in taken}
        return list(self.loading)

    def after(self, due_ms: int, position: int) -> Iterator[tuple[int, int]]:
        """(due time, position) in the order of due times, behind this pair."""
        for position_loading, due in self.loading.items():
            if (due, position_loading) > (due_ms, position):
                yield due, position_loading
        for row in self.rows.after(due_ms, position):
            yield row[0], row[1]

    def positions(self) -> Iterator[int]:
        """The positions of all messages, in no order."""
        yield from self.loading
        for _, positions in self.rows.chunks():
            yield from positions

    def due_of(self, position: int) -> int:
        """The time when the message at `position` is due, 0 when it is not here. Reads all rows."""
        found = self.loading.get(position, 0)
        for due_times, positions in () if found else self.rows.chunks():
            if position in positions:
                return due_times[positions.index(position)]
        return found

    def holds(self, due_ms: int, position: int) -> bool:
        """Return whether this message is here."""
        return position in self.loading or next(self.after(due_ms, position - 1), None) == (due_ms, position)

    def remove(self, due_ms: int, position: int) -> bool:
        """Remove one message; returns whether it was here."""
        return self.loading.pop(position, None) is not None or self.rows.remove(due_ms, position)

    def add(self, due_ms: int, position: int) -> None:
        """Schedule a message."""
        self.rows.add(due_ms, position)
        if self._due_by_position is not None:
            self._due_by_position[position] = due_ms

    def remove_positions(self, positions: Sequence[int]) -> None:
        """Remove those of `positions` that are here. The first call makes an index of all rows, which needs
        memory until `drop_index`."""
        if self._due_by_position is None:
            self._due_by_position = {
                at: due
                for due_times, ats in self.rows.chunks()
                for due, at in zip(due_times, ats, strict=True)
            }
        for position in positions:
            due_ms = self._due_by_position.pop(position, None)
            if due_ms is not None:
                self.rows.remove(due_ms, position)

    def drop_index(self) -> None:
        """Drop the index of `remove_positions`."""
        self._due_by_position = None

    def keep(self, wanted: Callable[[int], bool]) -> None:
        """Remove all messages but those with a `wanted` position."""
        former, self.rows = self.rows, Rows(2)
        for due_times, positions in former.chunks():
            kept = [at for at, position in enumerate(positions) if wanted(position)]
            if len(kept) == len(positions):
                self.rows.extend(due_times, positions)
            elif kept:
                self.rows.extend(
                    array("Q", (due_times[at] for at in kept)), array("Q", (positions[at] for at in kept))
                )

    def save(self) -> list[tuple[array[int], array[int]]]:
        """Due times and positions, in order, in chunks that must not be changed."""
        first = self.next_ms
        loading = sorted((min(due, first or due), position) for position, due in self.loading.items())
        due_times, positions = array("Q", (due for due, _ in loading)), array("Q", (at for _, at in loading))
        return [(due_times, positions), *((chunk[0], chunk[1]) for chunk in self.rows.chunks())]

    def load(self, due_times: array[int], positions: array[int]) -> None:
        """Restore what `save` returned."""
        self.rows.extend(due_times, positions)
