"""The messages in the lanes of queues: added, paged out and read back, removed, and recorded."""

from __future__ import annotations

from array import array
from bisect import bisect_right

from broker_app.core import commands as c
from broker_app.core import records
from broker_app.core.lane import Lane, sequence_of
from broker_app.core.message import (
    Envelope,
    Message,
)
from broker_app.core.model import Queue
from broker_app.core.outcome import Fetch
from broker_app.core.records import Record
from broker_app.core.snapshot_format import LoadedSection
from broker_app.core.tap import Taps
from broker_app.core.turn import Turn


class MessageStore:
    """All lanes of all queues: memory, journal and records. Does not know consumers."""

    def __init__(self, turn: Turn) -> None:
        self._turn = turn
        #: bytes of messages whose bodies are in memory and waiting
        self.memory_bytes = 0
        #: watchers of new messages
        self.taps = Taps()
        #: queues with something to deliver, to be dispatched in this turn
        self.dirty: list[Queue] = []
        #: queues that may hold more than their limits allow
        self.over_limit: dict[Queue, None] = {}
        #: queues of which deliveries were acknowledged in this turn
        self.acknowledging: list[Queue] = []

    def enqueue(
        self, queue: Queue, envelope: Envelope, body: bytes, explicit_id: bytes | None = None
    ) -> Message:
        """Add a new message at the end of its lane; recorded when it is persistent or memory is full."""
        turn, lanes = self._turn, queue.lanes
        out = turn.out
        lane = (
            lanes[0]
            if len(lanes) == 1 and lanes[0].priority == envelope.priority
            else queue.lane(envelope.priority)
        )
        paging = queue.durable and (
            len(lane.paged) > 0
            or len(lane.loading) > 0
            or len(lane.ready) >= turn.limits.window
            or self.memory_bytes >= turn.limits.memory_bytes
        )
        recorded = queue.durable and (envelope.persistent or paging or queue.forwarded)
        if recorded:
            message = Message(envelope, body, out.first_position + out.count, turn.now_ms, True)
            message.explicit_id = explicit_id
            out.parts += records.published(message, out.destination(queue.address), queue.address)
            message.sequence = message.position + lane.shift
            out.count += 1
            out.published.append(message.position)
        else:
            message = turn.transient_message(envelope, body)
            message.explicit_id = explicit_id
            message.sequence = out.first_position + out.count + lane.shift
            lane.shift += 1
        usage = queue.limit_usage
        if usage is not None:
            if queue.deleted:  # `Destinations.discard`
                turn.counters["discarded"] += 1
                return message
            usage.bytes += len(body)
            if usage.removes:
                self.over_limit[queue] = None
        queue.counters.published += 1
        if self.taps:
            self.taps.note(queue.address, message)
        if paging:
            lane.paged.append(message.position)
            lane.average_bytes += (message.size - lane.average_bytes) >> 4
            if queue.selective is not None:
                queue.selective.loaded_bodies[message.position] = message
        else:
            self.append(queue, lane, message)
        if message.expires_ms:
            queue.expiring = True
        if not queue.dirty and (queue.available or queue.selective):
            queue.dirty = True
            self.dirty.append(queue)
        return message

    def append(self, queue: Queue, lane: Lane, message: Message) -> None:
        """Add a message at the end of those in memory."""
        lane.ready.append(message)
        size = len(message.body) + message.envelope.overhead_bytes
        self.memory_bytes += size
        if queue.account is not None:
            queue.account.keep(size)

    def count_body(self, queue: Queue, size: int) -> None:
        """Count memory that a message of `queue` uses from now on, or (less than 0) no longer uses."""
        self.memory_bytes += size
        if queue.account is not None:
            queue.account.keep(size)

    def release(self, queue: Queue, released: int, held: int) -> None:
        """Count `released` bytes of messages that left their lanes, of which `held` are unsettled."""
        self.memory_bytes -= released
        if queue.account is not None:
            queue.account.keep(held - released)

    def has_room(self, queue: Queue, size: int) -> bool:
        """Return whether one more message, which is not recorded, may wait in a queue."""
        if queue.depth >= self._turn.limits.topic_pending:
            return False
        return queue.account is None or queue.account.has_room(size, self._turn.limits)

    def mark_dirty(self, queue: Queue) -> None:
        """Have a queue dispatched at the end of this turn."""
        if not queue.dirty:
            queue.dirty = True
            self.dirty.append(queue)

    def fetch(self, queue: Queue, lane: Lane) -> None:
        """Request the next run of bodies when few are in memory."""
        limits = self._turn.limits
        if lane.loading or not lane.paged or len(lane.ready) > limits.fetch_messages:
            return
        count = max(1, min(limits.fetch_messages, limits.fetch_bytes // max(1, lane.average_bytes)))
        lane.loading = lane.paged.take(count)
        self._turn.out.fetches.append(Fetch(queue.address, lane.priority, list(lane.loading)))

    def read_back(self, queue: Queue, command: c.Loaded) -> None:
        """Put bodies that were read back into memory."""
        lane = queue.lane(command.priority)
        wanted = set(lane.loading)
        if not wanted or not wanted.issubset(command.positions):
            return  # the queue was purged meanwhile, or all of them were moved
        del lane.loading[:]
        read, usage = queue.reader.message, queue.limit_usage
        for position, record in zip(command.positions, command.records, strict=True):
            if position not in wanted:
                continue  # moved while it was read
            message = read(record, position)
            if usage is not None:
                usage.read_back(position, len(message.body))
            message.attempts = lane.attempts_of(position)
            lane.attempts.pop(position, None)
            message.sequence = position + lane.shift
            self.append(queue, lane, message)
            if len(lane.ready) > 1 and message.sequence < lane.ready[-2].sequence:  # it was read out of order
                lane.ready.pop()
                lane.ready.insert(bisect_right(lane.ready, message.sequence, key=sequence_of), message)
        lane.average_bytes = sum(map(len, command.records)) // len(command.records)
        if usage is not None and usage.removes:
            self.over_limit[queue] = None
        self.mark_dirty(queue)

    def page_out(self, lane: Lane, keep: int) -> None:
        """Drop recorded bodies from memory, of all but the first `keep` messages of `lane.ready`."""
        ready = lane.ready
        while len(ready) > keep:
            message = ready[-1]
            if not message.recorded or message.sequence - message.position != lane.shift:
                return  # its place among paged ones does not follow from its position
            ready.pop()
            self.memory_bytes -= message.size
            lane.paged.insert(message.position)
            if message.attempts != lane.attempts_of(message.position):
                lane.attempts[message.position] = message.attempts

    @staticmethod
    def belongs_outside(queue: Queue, lane: Lane, message: Message) -> bool:
        """Return whether a returned message must be paged, because messages before it are not in memory: it
        was delivered selectively, and the queue has plain delivery again."""
        if (
            queue.selective is not None
            or not message.recorded
            or message.sequence - message.position != lane.shift
        ):
            return False
        first = lane.loading[0] if lane.loading else lane.paged.first
        return 0 < first < message.position

    def empty(self, queue: Queue) -> list[int]:
        """Remove all waiting messages; returns the positions of the recorded ones."""
        positions: list[int] = []
        queue.counters.removed += queue.depth
        for lane in queue.lanes:
            for message in lane.in_memory():
                self.count_body(queue, -message.size)
                if message.recorded:
                    positions.append(message.position)
            positions += lane.loading
            for chunk in lane.paged.chunks():
                positions += chunk
        queue.lanes.clear()
        return positions

    def close_queue(self, queue: Queue) -> None:
        """Delete a queue that is not recorded."""
        queue.deleted = True
        self.count_body(queue, -sum(m.size for lane in queue.lanes for m in lane.in_memory()))
        queue.lanes.clear()

    def drop(self, queue: Queue, message: Message, cause: int) -> None:
        """Record the end of a message that is in no lane and not unsettled."""
        if queue.limit_usage is not None:
            queue.limit_usage.bytes -= len(message.body)
        if message.recorded:
            out = self._turn.out
            out.record(records.acked(out.destination(queue.address), cause, (message.position,)))
            out.freed.append(message.position)

    def record_purged(self, queue: Queue, positions: list[int]) -> None:
        """Record the end of messages that an operator removed."""
        """Record the end of messages that an operator removed."""
        if positions:
            out = self._turn.out
            out.record(records.acked(out.destination(queue.address), records.PURGED, positions))
            out.freed += positions

    def acknowledge(self, queue: Queue, message: Message) -> None:
        """Have the acknowledgement of a message recorded at the end of this turn."""
        if not queue.acked:
            self.acknowledging.append(queue)
        queue.acked.append(message.position)

    def record_acks(self) -> None:
        """Write one record for each queue of which messages were acknowledged in this turn."""
        out = self._turn.out
        for queue in self.acknowledging:
            out.record(records.acked(out.destination(queue.address), records.ACKNOWLEDGED, queue.acked))
            out.freed += queue.acked
            queue.acked = []
        self.acknowledging.clear()

    # ------------------------------------------------------------------ recovery and following

    def apply(self, queue: Queue, record: Record) -> int:
        """Apply a record to a queue without consumers; returns how many messages it removed."""
        kind, lanes = record.kind, queue.lanes
        if kind == records.PUBLISHED:
            priority = record.priority
            lane = lanes[0] if len(lanes) == 1 and lanes[0].priority == priority else queue.lane(priority)
            lane.paged.append(record.position)
            if record.flags & records.GROUPED:
                queue.last_grouped = record.position
            return 0
        numbers = array("Q")
        numbers.frombytes(record.batch[record.start + records.HEAD_SIZE : record.end])
        if kind == records.ACKED:
            return self._forget(queue, numbers)
        if kind == records.DELIVERED:
            queue.lane(record.priority).delivered_up_to = numbers[0]
            return 0
        for position, attempts in zip(numbers[::2], numbers[1::2], strict=True):  # RETURNED
            for lane in lanes:
                if position in lane.paged:
                    lane.attempts[position] = attempts
        return 0

    @staticmethod
    def _forget(queue: Queue, positions: array[int]) -> int:
        """Remove messages from the lanes of a queue; returns how many were there."""
        removed = 0
        wanted: list[int] | None = None
        for lane in queue.lanes:
            if lane.attempts:
                for position in positions:
                    lane.attempts.pop(position, None)
            if lane.paged.remove_front(positions):
                return len(positions)
            if wanted is None:
                wanted = sorted(positions)
            removed += lane.paged.remove(wanted)
        return removed

    def load(self, queue: Queue, section: LoadedSection) -> None:
        """Restore a queue from its section of a snapshot."""
        for priority, delivered_up_to, positions, attempts in section.lanes:
            lane = queue.lane(priority)
            lane.delivered_up_to = delivered_up_to
            lane.paged.extend(positions)
            lane.attempts = attempts
        queue.last_grouped = section.grouped or queue.last_grouped
