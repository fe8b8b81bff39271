"""Messages into lanes, and out of them to whoever has credit."""

from __future__ import annotations

from bisect import bisect_right
from heapq import heappop

from broker_app.core import commands as c
from broker_app.core import records
from broker_app.core.message import Envelope, Message
from broker_app.core.outcome import Fetch
from broker_app.core.queue import Lane, Queue, order_of
from broker_app.core.state import State


class Dispatch(State):
    """Arrival, handing out, reading back, and the records of what is gone."""

    def _enqueue(
        self, queue: Queue, envelope: Envelope, body: bytes, explicit_id: bytes | None = None
    ) -> Message:
        """Put a new message at the end of its lane, recorded where it must survive or memory is full."""
        lanes = queue.lanes
        lane = (
            lanes[0]
            if len(lanes) == 1 and lanes[0].priority == envelope.priority
            else queue.lane(envelope.priority)
        )
        paging = queue.durable and (
            len(lane.paged) > 0
            or len(lane.loading) > 0
            or len(lane.ready) >= self.limits.window
            or self.memory_bytes >= self.limits.memory_bytes
        )
        recorded = queue.durable and (envelope.persistent or paging or queue.forwarded)
        if recorded:
            out = self._out
            message = Message(envelope, body, out.first_position + out.count, self.now_ms, True)
            message.explicit_id = explicit_id
            out.parts += records.published(message, out.destination(queue.address), queue.address)
            message.order = message.position + lane.shift
            out.count += 1
            out.published.append(message.position)
        else:
            self._unrecorded += 1
            message = Message(envelope, body, self._unrecorded, self.now_ms, False)
            message.explicit_id = explicit_id
            message.order = self._out.first_position + self._out.count + lane.shift
            lane.shift += 1
        guard = queue.guarded
        if guard is not None:
            if queue is self._NOWHERE:
                self.counters["discarded"] += 1
                return message
            guard.bytes += len(body)
            if guard.removes:
                self._overfull[queue] = None
        queue.published_total += 1
        if self.taps:
            self.taps.note(queue.address, message)
        if paging:
            lane.paged.append(message.position)
            lane.average += (message.size - lane.average) >> 4
            if queue.picking is not None:
                queue.picking.at_hand[message.position] = message
        else:
            self._arrive(queue, lane, message)
        if message.expires_ms:
            queue.expiring = True
        if not queue.dirty and (queue.available or queue.picking):
            queue.dirty = True
            self._dirty.append(queue)
        return message

    def _arrive(self, queue: Queue, lane: Lane, message: Message) -> None:
        lane.ready.append(message)
        size = len(message.body) + message.envelope.weight
        self.memory_bytes += size
        if queue.account is not None:
            queue.account.keep(size)

    def _dispatch(self, queue: Queue) -> None:
        """Hand out messages while there are both messages in memory and consumers with credit."""
        available = queue.available
        now_ms = self.now_ms
        touched = self._out.touched
        guard = queue.guarded
        handed_out = settled = released = held = 0
        while available:
            lane = queue.first_lane()
            if lane is None:
                break
            ready, returned = lane.ready, lane.returned
            mark = lane.mark
            while available:
                if returned and (not ready or returned[0][0] < ready[0].order):
                    message = heappop(returned)[1]
                elif ready:
                    message = ready.popleft()
                else:
                    break
                size = len(message.body) + message.envelope.weight
                released += size
                if 0 < message.expires_ms <= now_ms:
                    self._expire(queue, message)
                    continue
                if message.attempts and self._begin_attempt(queue, message):
                    continue
                subscription = available[0]
                if len(available) > 1:
                    available.rotate(-1)
                peer = subscription.peer
                if subscription.ack == c.AUTO:
                    tag = 0
                    settled += 1
                    if message.recorded:
                        self._acknowledged(queue, message)
                    if guard is not None:
                        guard.bytes -= len(message.body)
                else:
                    tag = peer.next_tag
                    peer.next_tag = tag + 1
                    peer.unsettled[tag] = (subscription, message)
                    subscription.unsettled += 1
                    held += size
                    if subscription.lease_ms:
                        self.leases.begin(peer, tag, now_ms + subscription.lease_ms)
                    if message.recorded and message.position > lane.mark:
                        lane.mark = message.position
                    if subscription.unsettled >= subscription.credit:
                        available.pop()
                        subscription.available = False
                handed_out += 1
                subscription.handed_out += 1
                peer.deliveries.append((subscription, tag, message))
                if not peer.touched:
                    peer.touched = True
                    touched.append(peer)
            if lane.mark != mark:
                out = self._out
                out.record(records.delivered(out.destination(queue.address), lane.priority, lane.mark))
            self._fetch(queue, lane)
            if not ready and (lane.loading or lane.paged):
                break
        self.memory_bytes -= released
        if queue.account is not None:
            queue.account.keep(held - released)
        if not handed_out:
            return
        queue.acked_total += settled
        queue.unsettled += handed_out - settled
        queue.waits.append(now_ms - message.time_ms)
        if tag and not subscription.probe_tag:
            subscription.probe_tag, subscription.probe_ms = tag, now_ms
        queue.delivered_total += handed_out
        self.counters["delivered"] += handed_out

    def _fetch(self, queue: Queue, lane: Lane) -> None:
        """Ask for the next run of bodies when memory runs low on them."""
        limits = self.limits
        if lane.loading or not lane.paged or len(lane.ready) > limits.fetch_messages:
            return
        count = max(1, min(limits.fetch_messages, limits.fetch_bytes // max(1, lane.average)))
        lane.loading = lane.paged.take(count)
        self._out.fetches.append(Fetch(queue.address, lane.priority, list(lane.loading)))

    def _loaded(self, command: c.Loaded) -> None:
        queue = self.queues.get(command.address)
        if queue is None:
            return
        lane = queue.lane(command.priority)
        wanted = set(lane.loading)
        if not wanted or not wanted.issubset(command.positions):
            return  # the queue was purged meanwhile, or all of them were moved away
        del lane.loading[:]
        read, guard = queue.reader.message, queue.guarded
        for position, record in zip(command.positions, command.records, strict=True):
            if position not in wanted:
                continue  # moved away while it was read
            message = read(record, position)
            if guard is not None:
                guard.read_back(position, len(message.body))
            message.attempts = lane.attempts_of(position)
            lane.attempts.pop(position, None)
            message.order = position + lane.shift
            self._arrive(queue, lane, message)
            if len(lane.ready) > 1 and message.order < lane.ready[-2].order:  # it was picked out of order
                lane.ready.pop()
                lane.ready.insert(bisect_right(lane.ready, message.order, key=order_of), message)
        lane.average = sum(map(len, command.records)) // len(command.records)
        if guard is not None and guard.removes:
            self._overfull[queue] = None
        self._touch(queue)

    def _empty(self, queue: Queue) -> list[int]:
        """Take out all that waits; the positions of what was recorded."""
        positions: list[int] = []
        queue.removed_total += queue.depth
        for lane in queue.lanes:
            for message in lane.in_memory():
                self._remember_body(queue, -message.size)
                if message.recorded:
                    positions.append(message.position)
            positions += lane.loading
            for chunk in lane.paged.chunks():
                positions += chunk
        queue.lanes.clear()
        return positions

    def _record_purged(self, queue: Queue, positions: list[int]) -> None:
        if positions:
            out = self._out
            out.record(records.acked(out.destination(queue.address), records.PURGED, positions))
            out.freed += positions

    def _acknowledged(self, queue: Queue, message: Message) -> None:
        if not queue.acked:
            self._acking.append(queue)
        queue.acked.append(message.position)

    def _record_acks(self) -> None:
        out = self._out
        for queue in self._acking:
            out.record(records.acked(out.destination(queue.address), records.ACKNOWLEDGED, queue.acked))
            out.freed += queue.acked
            queue.acked = []
        self._acking.clear()

    def _begin_attempt(self, queue: Queue, message: Message) -> bool:
        """Note that a message is handed out once more, which counts also if the broker ends before it comes
        back; True when it was handed out too often already, and became a dead letter."""
        if self._bury_worn_out(queue, message):
            return True
        if message.recorded:
            out = self._out
            attempt = message.position, message.attempts + 1
            out.record(records.returned(out.destination(queue.address), [attempt]))
        return False

    def _bury_worn_out(self, queue: Queue, message: Message) -> bool:
        """Make a message that is in no lane a dead letter where it was handed out too often."""
        return False

    def _expire(self, queue: Queue, message: Message) -> None:
        queue.expired_total += 1
        self._drop(queue, message, records.EXPIRED)

    def _drop(self, queue: Queue, message: Message, cause: int) -> None:
        """Forget a message that is in no lane and no longer unsettled."""
        if queue.guarded is not None:
            queue.guarded.bytes -= len(message.body)
        if message.recorded:
            out = self._out
            out.record(records.acked(out.destination(queue.address), cause, (message.position,)))
            out.freed.append(message.position)
