"""The messages in the lanes of queues: added, paged out and read back, removed, and recorded."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from heapq import heapify
from itertools import islice

from broker_app.base.large_record import bytes_of
from broker_app.core import commands as c
from broker_app.core.durability import records
from broker_app.core.durability.record import Record
from broker_app.core.durability.snapshot_format import LoadedSection
from broker_app.core.inspection.tap import Taps
from broker_app.core.message import (
    Envelope,
    Message,
)
from broker_app.core.model import Queue
from broker_app.core.outcome import Fetch, MessagesEnded
from broker_app.core.reasons import code_of
from broker_app.core.storage.lane import Lane, is_pageable, sequence_of
from broker_app.core.turn import Turn

#: messages that one step of a purge removes: less than 1 ms
PURGED_AT_ONCE = 500


class MessageStore:
    """All lanes of all queues: memory, journal and records. Does not know consumers."""

    def __init__(self, turn: Turn) -> None:
        self._turn = turn
        #: bytes of messages whose bodies are in memory and waiting
        self.memory_bytes = 0
        #: watchers of new messages
        self.taps = Taps()
        #: returns True for the address of a queue whose messages are reported when they end; None: for none
        self.watches_ends: Callable[[str], bool] | None = None
        #: queues with something to deliver, to be dispatched in this turn
        self.dirty: list[Queue] = []
        #: queues that may hold more than their limits allow
        self.over_limit: dict[Queue, None] = {}
        #: queues of which deliveries were acknowledged in this turn
        self.acknowledging: list[Queue] = []

    def enqueue(
        self,
        queue: Queue,
        envelope: Envelope,
        body: bytes,
        explicit_id: bytes | None = None,
        source: bytes = b"",
    ) -> Message:
        """Add a new message at the end of its lane; recorded when it is persistent or memory is full.
        `source` is the client that sent it, and the origin of a forwarded message (see `records`)."""
        turn, lanes = self._turn, queue.lanes
        out = turn.out
        lane = (
            lanes[0]
            if len(lanes) == 1 and lanes[0].priority == envelope.priority
            else queue.lane(envelope.priority)
        )
        paging = queue.durable and (
            lane.paged.count
            or lane.loading
            or len(lane.ready) >= turn.limits.window
            or self.memory_bytes + len(body) >= turn.limits.memory_bytes
        )
        recorded = queue.durable and (
            envelope.persistent or paging or queue.forwarded or (queue.released and _may_page(queue))
        )
        if recorded:
            message = Message(envelope, body, out.first_position + out.count, turn.now_ms, True)
            message.explicit_id = explicit_id
            out.parts += records.published(message, out.destination(queue.address), queue.address, 0, source)
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
                self.trim_later(queue)
        queue.counters.published += 1
        if queue.address in self.taps:
            self.taps.note(queue.address, message)
        if paging:
            lane.paged.append(message.position)
            lane.average_bytes += (len(body) + envelope.overhead_bytes - lane.average_bytes) >> 4
            if queue.selective is not None:
                queue.selective.loaded_bodies[message.position] = message
        else:
            self.append(queue, lane, message)
        if message.expires_ms:
            queue.expiring = True
        if not queue.dirty and (queue.available.first is not None or queue.selective):
            queue.dirty = True
            self.dirty.append(queue)
        return message

    def mark_repeat(self, queue: Queue, message: Message) -> None:
        """Mark a message that was just stored, and that another broker may have delivered: it counts as
        delivered once, unless that would be its last attempt."""
        if queue.policy.max_attempts < 2 or queue.deleted:
            return
        message.attempts = 1
        if message.recorded:
            self._record_attempt(queue, message.position)
            lane = queue.lane(message.envelope.priority)
            if message.position in lane.paged:
                lane.attempts[message.position] = 1

    def mark_waiting(self, queue: Queue, position: int) -> None:
        """Mark a message in the same way if it waits, and no consumer had it yet."""
        found = self.waiting(queue, {position})
        message = found.get(position)
        if message is not None and not message.attempts:
            self.mark_repeat(queue, message)
        elif message is None and found and queue.policy.max_attempts > 1:
            lane = next(one for one in queue.lanes if position in one.paged or position in one.loading)
            if not lane.attempts_of(position):
                lane.attempts[position] = 1
                self._record_attempt(queue, position)

    def _record_attempt(self, queue: Queue, position: int) -> None:
        out = self._turn.out
        out.record(records.returned(out.destination(queue.address), ((position, 1),)))

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

    def trim_later(self, queue: Queue) -> None:
        """Have a queue trimmed at the end of this turn, which may hold more than its limits allow."""
        self.over_limit[queue] = None
        self._turn.follows_up = True

    def fetch(self, queue: Queue, lane: Lane) -> None:
        """Request the next run of bodies when few are in memory."""
        limits = self._turn.limits
        if lane.loading or not lane.paged.count or len(lane.ready) > limits.fetch_messages:
            return
        count = max(1, min(limits.fetch_messages, limits.fetch_bytes // max(1, lane.average_bytes)))
        lane.loading = lane.paged.take(count)
        self._turn.out.fetches.append(Fetch(queue.address, lane.priority, list(lane.loading)))

    def read_back(self, queue: Queue, command: c.Loaded) -> None:
        """Put bodies that were read back into memory."""
        lane = queue.lane(command.priority)
        if command.left:
            self._page_again(lane, set(lane.loading), command)
        loading = lane.loading.tolist()
        if not loading:  # the queue was purged meanwhile, all of them were moved, or none could be read
            self.mark_dirty(queue)
            return
        messages = queue.reader.messages(command.records, command.positions)
        if loading != command.positions:
            wanted = set(loading)
            if not wanted.issubset(command.positions):
                return
            messages = [message for message in messages if message.position in wanted]  # others were moved
        del lane.loading[:]
        self._add_read_back(queue, lane, messages)
        usage = queue.limit_usage
        lane.average_bytes = bytes_of(command.records) // len(command.records)
        if usage is not None and usage.removes:
            self.trim_later(queue)
        self.mark_dirty(queue)

    def _add_read_back(self, queue: Queue, lane: Lane, messages: list[Message]) -> None:
        """Add messages that were read back to those in memory."""
        ready, shift, attempts, tried = lane.ready, lane.shift, lane.attempts, lane.delivered_up_to
        size = 0
        for message in messages:
            position = message.position
            if position <= tried:
                message.attempts = 1
            if attempts:
                message.attempts = attempts.pop(position, message.attempts)
            message.sequence = position + shift
            size += len(message.body) + message.envelope.overhead_bytes
        if ready and messages[0].sequence < ready[-1].sequence:  # they were read out of order
            for message in messages:
                ready.insert(bisect_right(ready, message.sequence, key=sequence_of), message)
        else:
            ready.extend(messages)
        self.memory_bytes += size
        if queue.account is not None:
            queue.account.keep(size)
        if queue.limit_usage is not None:
            for message in messages:
                queue.limit_usage.read_back(message.position, len(message.body))

    @staticmethod
    def _page_again(lane: Lane, wanted: set[int], command: c.Loaded) -> None:
        """Return what was left to its place among paged messages, if the lane still waits for it."""
        left = wanted.intersection(command.left)
        if not wanted - left <= set(command.positions):
            return
        for position in left:
            lane.paged.insert(position)
        wanted -= left
        lane.loading = array("Q", [position for position in lane.loading if position in wanted])

    def page_out(self, lane: Lane, keep: int) -> None:
        """Drop recorded bodies from memory, of all but the first `keep` messages of `lane.ready`."""
        ready = lane.ready
        while len(ready) > keep:
            message = ready[-1]
            if not is_pageable(lane, message):
                return
            ready.pop()
            self.memory_bytes -= message.size
            lane.paged.insert(message.position)
            if message.attempts != lane.attempts_of(message.position):
                lane.attempts[message.position] = message.attempts

    @staticmethod
    def waiting(queue: Queue, wanted: set[int]) -> dict[int, Message | None]:
        """Those of the positions that wait in `queue`, with the message if it is in memory."""
        found: dict[int, Message | None] = {}
        in_order = sorted(wanted)
        for lane in queue.lanes:
            found.update((p, None) for p in lane.paged.among(in_order))
            found.update((p, None) for p in lane.loading if p in wanted)
            found.update((m.position, m) for m in lane.in_memory() if m.position in wanted)
        return found

    @staticmethod
    def belongs_outside(queue: Queue, lane: Lane, message: Message) -> bool:
        """Return whether a returned message must be paged, because messages before it are not in memory: it
        was chosen, or was delivered selectively and the queue has plain delivery again."""
        if queue.selective is not None or not is_pageable(lane, message):
            return False
        first = lane.loading[0] if lane.loading else lane.paged.first
        return 0 < first < message.position

    def page(self, queue: Queue, lane: Lane, message: Message) -> None:
        """Put a returned message whose body is not in memory into its place. Those behind it leave memory,
        too, or they would be delivered before it."""
        if queue.selective is None:
            self.page_out(lane, bisect_right(lane.ready, message.sequence, key=sequence_of))
            behind = [one for sequence, one in lane.returned if sequence > message.sequence]
            for one in filter(partial(is_pageable, lane), behind):
                lane.returned.remove((one.sequence, one))
                self.memory_bytes -= one.size
                lane.page(one.position)
                lane.attempts[one.position] = one.attempts
            heapify(lane.returned)
        lane.page(message.position)
        lane.attempts[message.position] = message.attempts

    def take_out(self, queue: Queue, gone: set[int]) -> list[Message]:
        """Remove waiting messages by position, wherever they are in their lanes; returns those that were in
        memory. Records nothing."""
        found: list[Message] = []
        in_order = sorted(gone)
        for lane in queue.lanes:
            taken = [message for message in lane.in_memory() if message.position in gone]
            if taken:
                found += taken
                self.count_body(queue, -sum(message.size for message in taken))
                alive = [message for message in lane.ready if message.position not in gone]
                lane.ready.clear()
                lane.ready.extend(alive)
                lane.returned = [entry for entry in lane.returned if entry[1].position not in gone]
                heapify(lane.returned)
            if lane.loading:
                lane.loading = array("Q", [p for p in lane.loading if p not in gone])
            lane.paged.remove(in_order)
            for position in gone.intersection(lane.attempts):
                del lane.attempts[position]
        return found

    def purge(self, queue: Queue) -> Iterator[None]:
        """Remove all waiting messages and record their end, in steps."""
        queue.counters.removed += queue.depth
        lanes = queue.lanes.copy()
        queue.lanes.clear()
        for lane in lanes:
            waiting = lane.in_memory()
            while messages := list(islice(waiting, PURGED_AT_ONCE)):
                self.count_body(queue, -sum(message.size for message in messages))
                self.record_ends(queue, [one for one in messages if one.recorded], (), records.PURGED)
                yield
            for positions in (lane.loading, *lane.paged.chunks()):
                self.record_ends(queue, (), positions, records.PURGED)
                yield

    def close_queue(self, queue: Queue) -> None:
        """Delete a queue that is not recorded."""
        queue.deleted = True
        self.count_body(queue, -sum(m.size for lane in queue.lanes for m in lane.in_memory()))
        queue.lanes.clear()

    def drop(self, queue: Queue, message: Message, cause: int, reason: str) -> None:
        """Record the end of a message that is in no lane and not unsettled."""
        if queue.limit_usage is not None:
            queue.limit_usage.bytes -= len(message.body)
        if message.recorded:
            self._record_end(queue, (message,), cause, code_of(reason))

    def record_ends(
        self,
        queue: Queue,
        messages: Sequence[Message],
        positions: Sequence[int],
        cause: int,
        reason: str = "",
    ) -> None:
        """Record the end of recorded messages, and of others that are not in memory, by position."""
        code = code_of(reason)
        if messages:
            self._record_end(queue, messages, cause, code)
        if positions:
            out = self._turn.out
            out.record(records.acked(out.destination(queue.address), cause, positions, code))
            out.freed += positions
            self._report_ends(queue, cause, (), positions)

    def _record_end(
        self,
        queue: Queue,
        messages: Sequence[Message],
        cause: int,
        reason: int = 0,
        clients: bytes = b"",
    ) -> None:
        """Record the end of messages, with facts about them."""
        out = self._turn.out
        record, positions = records.acked_with_facts(
            out.destination(queue.address), cause, out.time_us // 1000, messages, reason, clients
        )
        out.record(record)
        out.freed += positions
        self._report_ends(queue, cause, messages, ())

    def _report_ends(
        self, queue: Queue, cause: int, messages: Sequence[Message], positions: Sequence[int]
    ) -> None:
        if self.watches_ends is not None and self.watches_ends(queue.address):
            self._turn.out.events.append(
                MessagesEnded(queue.address, records.CAUSES[cause], messages, positions)
            )

    def acknowledge(self, queue: Queue, message: Message, client: str) -> None:
        """Have the acknowledgement of a message by a client recorded at the end of this turn."""
        acked = queue.acked.get(client)
        if acked is None:
            if not queue.acked:
                self.acknowledging.append(queue)
            acked = queue.acked[client] = []
        acked.append(message)

    def record_acks(self) -> None:
        """Write one record for each queue of which messages were acknowledged in this turn."""
        out = self._turn.out
        for queue in self.acknowledging:
            messages: list[Message] = []
            clients = b""
            for client, acked in queue.acked.items():
                messages = messages + acked if messages else acked
                clients += out.client(client) * len(acked)
            self._record_end(queue, messages, records.ACKNOWLEDGED, 0, clients)
            queue.acked = {}
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
        numbers = records.positions(record.batch, record.start, record.end)
        if kind == records.ACKED:
            return self._forget(queue, numbers)
        if kind == records.DELIVERED:
            queue.lane(record.priority).delivered_up_to = numbers[0]
            return 0
        if record.flags & records.GIVEN_BACK:
            return 0  # the delivery was counted when it began
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


def _may_page(queue: Queue) -> bool:
    """Return whether a released body may be paged when its delivery returns: what arrives meanwhile must be
    recorded, so that it can be paged behind it."""
    queue.released = queue.unsettled > 0
    return queue.released
