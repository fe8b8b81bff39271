"""The scheduler of delayed messages: they wait in the journal and in a schedule until they are due.

A delayed message is recorded under its destination with its due time, persistent or not. When it is due
it is published again under its id, and its first record is acknowledged in the same batch.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from broker_app.base.large_record import bytes_of
from broker_app.core import commands as c
from broker_app.core.durability import records
from broker_app.core.durability.record import Record
from broker_app.core.durability.snapshot_format import LoadedSection
from broker_app.core.message import (
    Envelope,
    Message,
)
from broker_app.core.outcome import DUE, Fetch
from broker_app.core.reasons import code_of
from broker_app.core.storage.schedule import Schedule
from broker_app.core.timers import Alarms
from broker_app.core.turn import Turn

#: messages of one destination that are published in one run
RUN = 512
#: runs in one batch
RUNS = 4


class Scheduler:
    """Schedules by address; each has one alarm, for the first of its messages."""

    def __init__(self, turn: Turn) -> None:
        self._turn = turn
        self.schedules: dict[str, Schedule] = {}
        self.alarms: Alarms[str] = Alarms(turn.call_at)

    def delay(
        self,
        envelope: Envelope,
        body: bytes,
        due_ms: int,
        explicit_id: bytes | None = None,
        source: bytes = b"",
    ) -> Message:
        """Schedule a message for `due_ms`; its time to live begins then. `source` is as in
        `MessageStore.enqueue`."""
        out, address = self._turn.out, envelope.address
        message = Message(envelope, body, out.first_position + out.count, self._turn.now_ms, True)
        message.explicit_id = explicit_id
        message.expires_ms = envelope.expires_at_ms(due_ms)
        out.parts += records.published(message, out.destination(address), address, due_ms, source)
        out.count += 1
        out.published.append(message.position)
        schedule = self.schedule_of(address)
        schedule.add(due_ms, message.position)
        schedule.average_body_bytes += (message.size - schedule.average_body_bytes) >> 4
        self._set_alarm(schedule)
        return message

    def schedule_of(self, address: str) -> Schedule:
        """The schedule of a destination, created when there is none."""
        schedule = self.schedules.get(address)
        if schedule is None:
            schedule = self.schedules[address] = Schedule(address)
        return schedule

    def _set_alarm(self, schedule: Schedule) -> None:
        """Set the alarm to the next due time, unless a run of this schedule is being read back."""
        next_ms = 0 if schedule.loading else schedule.next_ms
        if next_ms and self.alarms.at_ms(schedule.address) != next_ms:
            self.alarms.set(schedule.address, next_ms)
        elif not len(schedule):
            self.schedules.pop(schedule.address, None)
            self.alarms.clear(schedule.address)

    def read_due(self) -> None:
        """Request the bodies of due messages; the alarm fires again at once when more are due."""
        limits = self._turn.limits
        for address in islice(self.alarms.due(self._turn.now_ms), RUNS):
            schedule = self.schedules[address]
            count = min(RUN, limits.fetch_messages, limits.fetch_bytes // max(1, schedule.average_body_bytes))
            positions = schedule.take(self._turn.now_ms, max(1, count))
            self._turn.out.fetches.append(Fetch(address, 0, positions, DUE))

    def take_due(self, command: c.Loaded) -> list[Message]:
        """The messages that were read back, unless cancelled meanwhile; they leave their schedule."""
        schedule = self.schedules.get(command.address)
        if schedule is None:
            return []  # purged meanwhile
        for position in command.left:
            if due_ms := schedule.loading.pop(position, 0):
                schedule.add(due_ms, position)
        read = schedule.reader.message
        taken = [
            read(record, position)
            for position, record in zip(command.positions, command.records, strict=True)
            if schedule.loading.pop(position, 0)
        ]
        if command.records:
            schedule.average_body_bytes = bytes_of(command.records) // len(command.records)
        self.end(command.address, [message.position for message in taken], records.DUE)
        self._set_alarm(schedule)
        return taken

    def cancel(self, address: str, wanted: Iterable[tuple[int, int]], cause: int) -> list[int]:
        """Remove scheduled messages, given as (due time, position); returns the positions of those that were
        there."""
        schedule = self.schedules.get(address)
        if schedule is None:
            return []
        gone = [position for due_ms, position in wanted if schedule.remove(due_ms, position)]
        self.end(address, gone, cause)
        self._set_alarm(schedule)
        return gone

    def cancel_all(self, address: str, cause: int) -> int:
        """Remove all scheduled messages of a destination; returns how many there were."""
        schedule = self.schedules.pop(address, None)
        if schedule is None:
            return 0
        self.alarms.clear(address)
        self.end(address, list(schedule.positions()), cause)
        return len(schedule)

    def end(self, address: str, positions: list[int], cause: int, reason: str = "") -> None:
        """Record the end of scheduled messages."""
        if positions:
            out = self._turn.out
            out.record(records.acked(out.destination(address), cause, positions, code_of(reason)))
            out.freed += positions

    def delayed(self, address: str) -> int:
        """The number of messages that are scheduled for a destination."""
        schedule = self.schedules.get(address)
        return 0 if schedule is None else len(schedule)

    # ------------------------------------------------------------------ recovery and following

    def apply(self, record: Record) -> None:
        """Apply a record to delayed messages. Alarms are set by `start`."""
        address = record.address
        if record.kind == records.PUBLISHED:
            self.schedule_of(address).add(record.due_ms, record.position)
        elif (schedule := self.schedules.get(address)) is not None:
            schedule.remove_positions(record.positions)
            if not len(schedule):
                del self.schedules[address]

    def load(self, section: LoadedSection) -> None:
        """Restore the delayed messages of a section of a snapshot."""
        if section.delayed[0]:
            self.schedule_of(section.address).load(*section.delayed)

    def start(self) -> None:
        """Set the alarms of all schedules, after recovery."""
        for address, schedule in self.schedules.items():
            schedule.drop_index()
            self.alarms.set(address, schedule.next_ms)
