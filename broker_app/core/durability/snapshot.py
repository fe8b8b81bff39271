"""Snapshots of a broker, taken in small steps while it works. `snapshot_format` describes the bytes."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import NamedTuple

from broker_app.core.broker import Broker
from broker_app.core.durability.snapshot_format import FORMAT, LOST, Section
from broker_app.core.message import Message
from broker_app.core.model import Queue
from broker_app.core.storage.lane import Lane

#: work done in one step, in destinations; a few thousand positions or messages cost as much as one
STEP = 256
_MESSAGES = 64


class Held(NamedTuple):
    """An unsettled message, and its delivery attempts, the present one included."""

    message: Message
    attempts: int


_NO_MESSAGES: Sequence[Held] = ()


class SnapshotBuilder:
    """A snapshot that is being taken. `position` is where recovery begins to read the records.

    It is created, and continued `step` by step until that returns True, between calls of `Broker.decide`. All
    records before `through` must be durable before the snapshot may be.
    """

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self.position = self.through = broker.turn.next_position
        dedup = dict.fromkeys(broker.publisher.dedup_windows.addresses())
        places = {
            **broker.destinations.queues,
            **broker.scheduler.schedules,
            **dedup,
            **broker.histories.histories,
            **broker.forwarding.offsets,
            **broker.bulk.producers,
        }
        self._addresses = iter([*places, LOST])
        self._busy: list[str] = []
        self.sections: list[tuple[str, list[bytes]]] = []

    def step(self, work: int = STEP) -> bool:
        """Add a few more sections; returns whether the snapshot is complete."""
        self.through = self._broker.turn.next_position
        for address in self._addresses:
            queue = self._broker.destinations.queues.get(address)
            if queue is not None and queue.unsettled:
                self._busy.append(address)  # later, together: unsettled messages are found by peer
                continue
            work -= self._take(address, _NO_MESSAGES)
            if work <= 0:
                return False
        return self._take_busy(work)

    def _take_busy(self, work: int) -> bool:
        if not self._busy:
            return True
        held = self._unsettled()
        work = max(work, sum(map(len, held.values())) // _MESSAGES)  # in proportion to the search
        while self._busy and work > 0:
            address = self._busy.pop()
            work -= self._take(address, held.get(address, _NO_MESSAGES))
        return not self._busy

    def _unsettled(self) -> dict[str, list[Held]]:
        """Recorded messages that consumers hold, or that wait before another attempt, by address."""
        found: dict[str, list[Held]] = {}
        for peer in self._broker.unsettled.peers:
            out = peer is not self._broker.unsettled.delayed.peer
            for subscription, message in peer.unsettled.values():
                if message.recorded:
                    held = Held(message, message.attempts + out)
                    found.setdefault(subscription.queue.address, []).append(held)
        return found

    def _take(self, address: str, held: Sequence[Held]) -> int:
        """Add the section of one destination; returns its cost."""
        section = Section(address, self._broker.turn.next_position)
        queue, schedule = (
            self._broker.destinations.queues.get(address),
            self._broker.scheduler.schedules.get(address),
        )
        messages = len(held)
        if queue is not None and queue.durable:
            _write_queue(section, queue, held)
            messages += sum(len(lane.ready) for lane in queue.lanes)
        if schedule is not None:
            chunks = schedule.save()
            section.delayed = section.add(due_times for due_times, _ in chunks)
            section.add(positions for _, positions in chunks)
        since_ms = self._broker.turn.now_ms - self._broker.turn.policies.of(address).dedup_window_ms
        section.dedup = section.add(self._broker.publisher.dedup_windows.save(address, since_ms))
        history = self._broker.histories.histories.get(address)
        if history is not None:
            section.history = history.save()
            section.add(block.positions for block in history.blocks)
        elif address == LOST and self._broker.histories.lost_to:
            section.history = (self._broker.histories.lost_to,)
        offset = self._broker.forwarding.offsets.get(address)
        producer = self._broker.bulk.producers.get(address)
        if offset is not None and offset.position:
            section.offset = offset.facts
        elif producer is not None:
            section.offset = producer.facts
        contents = (
            section.lanes,
            section.delayed,
            section.terms,
            section.dedup,
            section.history,
            section.offset,
        )
        if any(contents):
            self.sections.append((address, section.parts()))
        return section.cost + messages // _MESSAGES

    def parts(self) -> list[bytes]:
        """The snapshot's bytes, in pieces that are best not joined."""
        return [bytes((FORMAT,)), *chain.from_iterable(parts for _, parts in self.sections)]


def take_snapshot(broker: Broker) -> bytes:
    """Take a snapshot at once. Equal for brokers with equal durable state."""
    builder = SnapshotBuilder(broker)
    while not builder.step():
        pass
    builder.sections.sort()
    return b"".join(builder.parts())


def _write_queue(section: Section, queue: Queue, held: Sequence[Held]) -> None:
    oldest = 0
    for lane in queue.lanes:
        unsettled = [one for one in held if queue.lane_of(one.message) == lane.priority]
        first = _write_lane(section, lane, unsettled)
        oldest = min(oldest or first, first or oldest)
    if oldest and queue.last_grouped >= oldest:
        section.grouped = queue.last_grouped
    if queue.named is not None:
        section.terms = queue.named.terms


def _write_lane(section: Section, lane: Lane, unsettled: Sequence[Held]) -> int:
    """Add a lane to a section unless it is empty; returns the first of its positions, or 0."""
    tried = {message.position: attempts for message, attempts in unsettled}
    tried |= {message.position: message.attempts for message in lane.in_memory() if message.recorded}
    waiting = _merged(sorted((*tried, *lane.loading)), lane.paged.chunks())
    if not waiting:
        return 0
    tried |= lane.attempts
    known = [at for at, attempts in tried.items() if attempts != (1 if at <= lane.delivered_up_to else 0)]
    pairs = array("Q", [number for at in sorted(known) for number in (at, tried[at])])
    # Only its meaning for messages that are still here matters.
    offset = _last_up_to(lane.delivered_up_to, waiting)
    section.lanes.append((lane.priority, offset, section.add(waiting), section.add((pairs,))))
    return waiting[0][0]


def _merged(few: list[int], chunks: Iterable[array[int]]) -> list[array[int]]:
    """Sorted numbers and sorted chunks of many more, as sorted chunks; none is empty."""
    merged = []
    start = 0
    for chunk in chunks:
        if not chunk:
            continue
        before, end = bisect_right(few, chunk[0]), bisect_right(few, chunk[-1])
        if start < before:
            merged.append(array("Q", few[start:before]))
        merged.append(chunk if before == end else array("Q", sorted((*few[before:end], *chunk))))
        start = end
    if start < len(few):
        merged.append(array("Q", few[start:]))
    return merged


def _last_up_to(limit: int, chunks: Iterable[array[int]]) -> int:
    """The last of the sorted numbers that is not above the limit; 0 if there is none. No chunk is empty."""
    last = 0
    for chunk in chunks:
        if chunk[0] > limit:
            break
        last = chunk[bisect_right(chunk, limit) - 1]
    return last
