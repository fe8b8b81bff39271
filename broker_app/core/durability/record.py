"""One record of a batch, as recovery hands it to components."""

from __future__ import annotations

from array import array

from broker_app.core.durability import records


class Record:
    """One record of a batch, for the `apply` methods of components. Recovery fills the same object for each
    record in turn, so it must not be kept.

    `cause` of an ACKED record is in `flags`."""

    __slots__ = ("address", "batch", "end", "flags", "kind", "position", "priority", "start")

    def __init__(self, batch: bytes) -> None:
        self.batch = batch
        self.address = ""
        self.kind = self.flags = self.priority = self.start = self.end = self.position = 0

    @property
    def positions(self) -> array[int]:
        """The numbers of an ACKED, DELIVERED or RETURNED record."""
        return records.positions(self.batch, self.start, self.end)

    @property
    def due_ms(self) -> int:
        """The time when the message of a PUBLISHED record with the flag DELAYED is due."""
        return records.due_ms(self.batch, self.start, self.flags)

    @property
    def time_ms(self) -> int:
        """The time when the message of a PUBLISHED record was accepted."""
        return records.time_ms(self.batch, self.start)

    @property
    def size(self) -> int:
        """The bytes of the record."""
        return self.end - self.start

    @property
    def dedup_halves(self) -> tuple[int, int]:
        """The dedup-id of a PUBLISHED record with the flag DEDUP, as the halves of its digest."""
        return records.dedup_halves(self.batch, self.start, self.flags)

    @property
    def first_seen(self) -> records.FirstSeen:
        """The dedup-id of a PUBLISHED record with the flag DEDUP, and of which message it is."""
        return records.first_seen(self.batch, self.start, self.flags)

    @property
    def terms(self) -> records.Terms:
        """The content of a SUBSCRIBED record."""
        return records.terms(self.batch, self.start, self.end)

    @property
    def offset(self) -> tuple[str, int, int, int]:
        """The content of an OFFSET_SET record: owner, position, count, time in ms."""
        return records.offset_of(self.batch, self.start, self.end)
