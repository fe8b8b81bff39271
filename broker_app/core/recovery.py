"""How a broker comes back: the snapshot of its state, then the records that followed.

What is recorded comes back. A delivery that was out when the broker stopped waits again in its place;
whether it may be a repeat follows from the lane's mark.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Any

from msgspec import msgpack

from broker_app.core import records
from broker_app.core.broker import Broker
from broker_app.core.named import Terms
from broker_app.core.queue import Lane
from broker_app.core.schedule import Schedule

FORMAT = 3  # grows with the version of the records, which it leads to


def freeze(broker: Broker) -> bytes:
    """The recorded state as bytes: msgpack of {"format", "queues": [[address, [lane …]] …], "delayed":
    [[address, due times as u64, positions as u64] …], "subscriptions": [[address, filter, selector, shared,
    owner] …], "grouped": {address: position of the newest message with a group}} with a lane as [priority,
    mark, positions as u64, [[position, attempts] …]]. Equal for brokers that behave alike."""
    held = _unsettled(broker)
    queues = []
    grouped = {}
    for address in sorted(broker.queues):
        queue = broker.queues[address]
        lanes = [_freeze_lane(lane, held.get((address, lane.priority), [])) for lane in queue.lanes]
        if queue.durable and any(positions for _, _, positions, _ in lanes):
            queues.append([address, [lane for lane in lanes if lane[2]]])
            oldest = min(array("Q", positions[:8])[0] for _, _, positions, _ in lanes if positions)
            if queue.last_grouped >= oldest:
                grouped[address] = queue.last_grouped
    delayed = [[address, *broker.schedules[address].freeze()] for address in sorted(broker.schedules)]
    durable = [(address, *named.terms) for address, named in sorted(broker.named.items()) if named.durable]
    return msgpack.encode(
        {
            "format": FORMAT,
            "queues": queues,
            "delayed": delayed,
            "subscriptions": durable,
            "grouped": grouped,
        }
    )


def _unsettled(broker: Broker) -> dict[tuple[str, int], list[tuple[int, int]]]:
    """(position, attempts) of recorded messages that are handed out, by (address, priority)."""
    found: dict[tuple[str, int], list[tuple[int, int]]] = {}
    for peer in broker.peers:
        for subscription, message in peer.unsettled.values():
            if message.recorded:
                key = (subscription.queue.address, message.envelope.priority)
                found.setdefault(key, []).append((message.position, message.attempts))
    return found


def _freeze_lane(
    lane: Lane, unsettled: Sequence[tuple[int, int]]
) -> tuple[int, int, bytes, list[tuple[int, int]]]:
    # What is handed out counts as attempted once, at least.
    in_memory = [(position, max(1, attempts)) for position, attempts in unsettled]
    in_memory += [(m.position, m.attempts) for m in lane.in_memory() if m.recorded]
    positions = array("Q", sorted(position for position, _ in in_memory))
    positions.extend(lane.loading)
    for chunk in lane.paged.chunks():
        positions.extend(chunk)
    if lane.survey is not None:  # what was picked is not only at the front
        positions = array("Q", sorted(positions))
    # Only what it says about messages that are still here matters of a mark.
    handed_out = bisect_right(positions, lane.mark)
    mark = positions[handed_out - 1] if handed_out else 0
    attempts = [
        (position, count)
        for position, count in (*in_memory, *lane.attempts.items())
        if count != (1 if position <= lane.mark else 0)
    ]
    return lane.priority, mark, positions.tobytes(), sorted(attempts)


class Recovery:
    """Rebuilds `broker`, which must be new: `thaw` the snapshot if there is one, `replay` each batch
    that followed, then `finish`."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._gone: dict[str, set[int]] = {}
        self._attempts: dict[str, dict[int, int]] = {}

    def thaw(self, blob: bytes) -> None:
        state: dict[str, Any] = msgpack.decode(blob)
        if state["format"] != FORMAT:
            raise ValueError(
                f"the snapshot has format {state['format']}, this program reads format {FORMAT}; "
                "start the MOM that wrote this data"
            )
        for address, *terms in state["subscriptions"]:
            self._broker.begin_named(address, Terms(*terms))
        for address, lanes in state["queues"]:
            queue = self._broker.queue(address)
            for priority, mark, positions, attempts in lanes:
                lane = queue.lane(priority)
                lane.mark = mark
                numbers: array[int] = array("Q")
                numbers.frombytes(positions)
                lane.paged.extend(numbers)
                self._attempts.setdefault(address, {}).update(attempts)
        for address, position in state["grouped"].items():
            self._broker.queue(address).last_grouped = position
        for address, dues, positions in state["delayed"]:
            self._schedule(address).thaw(dues, positions)

    def _schedule(self, address: str) -> Schedule:
        schedule = self._broker.schedules.get(address)
        if schedule is None:
            schedule = self._broker.schedules[address] = Schedule(address)
        return schedule

    def replay(self, destinations: Sequence[str], first_position: int, batch: bytes) -> None:
        """Apply the records of one batch, as the journal stored it."""
        position = first_position
        for kind, flags, priority, destination, start, end in records.walk(batch):
            address = destinations[destination]
            if kind == records.PUBLISHED and flags & records.DELAYED:
                self._schedule(address).rows.add(records.due_ms(batch, start, flags), position)
            elif kind == records.PUBLISHED:
                queue = self._broker.queue(address)
                queue.lane(priority).paged.append(position)
                if flags & records.GROUPED:
                    queue.last_grouped = position
            elif kind == records.ACKED:
                self._gone.setdefault(address, set()).update(records.positions(batch, start, end))
            elif kind == records.DELIVERED:
                self._broker.queue(address).lane(priority).mark = records.positions(batch, start, end)[0]
            elif kind == records.RETURNED:
                numbers = records.positions(batch, start, end)
                self._attempts.setdefault(address, {}).update(zip(numbers[::2], numbers[1::2], strict=True))
            elif kind == records.SUBSCRIBED:
                self._subscribe(address, records.terms(batch, start, end))
            elif kind == records.FORGOTTEN:
                self._broker.end_named(self._broker.named[address])
            else:
                raise ValueError(
                    f"record {position} has the unknown type {kind}; start a newer MOM on this data"
                )
            position += 1

    def _subscribe(self, address: str, terms: Terms) -> None:
        named = self._broker.named.get(address)
        if named is None:
            self._broker.begin_named(address, terms)
        else:
            named.terms = terms

    def finish(self, next_position: int) -> None:
        """Take out what was settled, drop queues that are empty, and be ready for commands."""
        broker = self._broker
        broker.next_position = next_position
        for address, schedule in list(broker.schedules.items()):
            self._settle_schedule(schedule, self._gone.get(address, set()))
        for address, queue in list(broker.queues.items()):
            gone = self._gone.get(address, set())
            for lane in queue.lanes:
                self._settle(lane, gone, self._attempts.get(address, {}))
            queue.lanes = [lane for lane in queue.lanes if len(lane)]
            queue.expiring = True
            if queue.guarded is not None:
                queue.guarded.recount(0, queue.depth, next_position)
            if not queue.lanes and queue.named is None and address not in broker.schedules:
                del broker.queues[address]
            elif queue.last_grouped >= min((lane.paged.first for lane in queue.lanes), default=next_position):
                broker.keep_groups(queue)
        broker.make_declared()

    def _settle_schedule(self, schedule: Schedule, gone: set[int]) -> None:
        broker, address = self._broker, schedule.address
        if gone:
            schedule.keep(lambda position: position not in gone)
        if not len(schedule):
            del broker.schedules[address]
            return
        broker.alarms.set(address, schedule.next_ms)
        if address.startswith("/queue/"):
            broker.queue(address)

    @staticmethod
    def _settle(lane: Lane, gone: set[int], attempts: dict[int, int]) -> None:
        waiting = [position for chunk in lane.paged.chunks() for position in chunk]
        if gone:
            waiting = [position for position in waiting if position not in gone]
        lane.paged = type(lane.paged)()
        lane.paged.extend(array("Q", waiting))
        if attempts:
            lane.attempts = {position: attempts[position] for position in waiting if position in attempts}


def live_positions(broker: Broker) -> Iterator[array[int]]:
    """All recorded positions that wait, in chunks; for a broker that was just recovered."""
    for queue in broker.queues.values():
        for lane in queue.lanes:
            yield from lane.paged.chunks()
    for schedule in broker.schedules.values():
        for _, positions in schedule.rows.chunks():
            yield positions
