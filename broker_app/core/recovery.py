"""How a broker comes back: the snapshot of its state, then the records that followed.

What is recorded comes back. A delivery that was out when the broker stopped waits again in its place;
whether it may be a repeat follows from the lane's mark.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet

from broker_app.core import records, snapshot_format
from broker_app.core.broker import Broker
from broker_app.core.dedup import Seen
from broker_app.core.lane import Lane
from broker_app.core.offset import is_mark, of_address
from broker_app.core.records import Terms
from broker_app.core.schedule import Schedule
from broker_app.core.sync_queue import SYNC_ADDRESS

_TOPIC = "/topic/"


class Recovery:
    """Rebuilds `broker`, which must be new: `thaw` the snapshot if there is one, `replay` each batch
    that followed, then `finish`."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._gone: dict[str, set[int]] = {}
        self._attempts: dict[str, dict[int, int]] = {}
        #: records of a destination before this position are contained in the snapshot; and of all of them
        self._since: dict[str, int] = {}
        self._all_since = 0

    def load_section(self, blob: bytes) -> None:
        for section in snapshot_format.load_section(blob):
            self._since[section.address] = section.position
            self._all_since = max(self._all_since, section.position)
            if section.terms:
                self._subscribe(section.address, Terms(*section.terms))
            if section.mark:
                self._broker.forwarding.marks[section.address] = of_address(section.address, section.mark)
            if section.delayed[0]:
                self._schedule(section.address).load_section(*section.delayed)
            if section.dedup:
                self._broker.publisher.duplicates.load_section(section.address, section.dedup)
            if section.address == snapshot_format.LOST:
                self._broker.histories.lost_to = section.history[0]
            elif section.history:
                self._broker.histories.history(section.address).load_section(section.history, section.kept)
            for priority, mark, positions, attempts in section.lanes:
                lane = self._broker.destinations.queue(section.address).lane(priority)
                lane.mark = mark
                lane.paged.extend(positions)
                self._attempts.setdefault(section.address, {}).update(attempts)
            if section.grouped:
                self._broker.destinations.queue(section.address).last_grouped = section.grouped

    def _schedule(self, address: str) -> Schedule:
        schedule = self._broker.scheduler.schedules.get(address)
        if schedule is None:
            schedule = self._broker.scheduler.schedules[address] = Schedule(address)
        return schedule

    def replay(self, destinations: Sequence[str], first_position: int, batch: bytes) -> None:
        """Apply the records of one batch, as the journal stored it."""
        position = first_position
        for kind, flags, priority, destination, start, end in records.walk(batch):
            address = destinations[destination]
            if kind == records.PUBLISHED and flags & records.DEDUP:
                self._remember(records.first_seen(batch, start, flags), address, position)
            if position < self._all_since and position < self._since.get(address, 0):
                pass
            elif kind == records.PUBLISHED and flags & records.DELAYED:
                self._schedule(address).rows.add(records.due_ms(batch, start, flags), position)
            elif kind == records.PUBLISHED and address.startswith(_TOPIC):
                self._broker.histories.history(address).append(
                    position, records.time_ms(batch, start), end - start
                )
            elif kind == records.PUBLISHED:
                queue = self._broker.destinations.queue(address)
                queue.lane(priority).paged.append(position)
                if flags & records.GROUPED:
                    queue.last_grouped = position
            elif kind == records.ACKED and flags == records.TRIMMED:
                self._broker.histories.history(address).trim(records.positions(batch, start, end))
            elif kind == records.ACKED:
                self._gone.setdefault(address, set()).update(records.positions(batch, start, end))
            elif kind == records.DELIVERED:
                self._broker.destinations.queue(address).lane(priority).mark = records.positions(
                    batch, start, end
                )[0]
            elif kind == records.RETURNED:
                numbers = records.positions(batch, start, end)
                self._attempts.setdefault(address, {}).update(zip(numbers[::2], numbers[1::2], strict=True))
            elif kind == records.SUBSCRIBED:
                self._subscribe(address, records.terms(batch, start, end))
            elif kind == records.FORGOTTEN and is_mark(address):
                self._broker.forwarding.marks.pop(
                    address, None
                )  # it may be forgotten before its section was taken
            elif kind == records.FORGOTTEN:
                if (
                    named := self._broker.destinations.named.get(address)
                ) is not None:  # begun before the snapshot, else
                    self._broker.durables.end(named)
            elif kind == records.MARKED:
                self._broker.forwarding.marks[address] = of_address(address, records.mark(batch, start, end))
            else:
                raise ValueError(
                    f"record {position} has the unknown type {kind}; start a newer MOM on this data"
                )
            position += 1

    def _remember(self, first: records.FirstSeen, address: str, position: int) -> None:
        duplicates, address = self._broker.publisher.duplicates, first.address or address
        # The section that counts is that of the destination it was sent to; of several copies one is enough.
        if (
            position >= self._since.get(address, 0)
            and duplicates.first(address, first.digest, first.time_ms, 1) is None
        ):
            seen = Seen(first.position or position, first.time_ms, True)
            duplicates.remember(address, first.digest, seen)

    def _subscribe(self, address: str, terms: Terms) -> None:
        named = self._broker.destinations.named.get(address)
        if named is None:
            self._broker.durables.begin(address, terms)
        else:
            named.terms = terms

    def finish(self, next_position: int, now_ms: int = 0) -> None:
        """Take out what was settled, drop queues that are empty, and be ready for commands at `now_ms`."""
        broker = self._broker
        broker.turn.now_ms = now_ms
        broker.turn.next_position = next_position
        for address, schedule in list(broker.scheduler.schedules.items()):
            self._settle_schedule(schedule, self._gone.get(address, set()))
        for address, queue in list(broker.destinations.queues.items()):
            gone = self._gone.get(address, set())
            for lane in queue.lanes:
                self._settle(lane, gone, self._attempts.get(address, {}))
            queue.lanes = [lane for lane in queue.lanes if len(lane)]
            queue.expiring = True
            if queue.limit_usage is not None:
                queue.limit_usage.recount(0, queue.depth, next_position)
            if not queue.lanes and queue.named is None and address not in broker.scheduler.schedules:
                del broker.destinations.queues[address]
            elif queue.last_grouped >= min((lane.paged.first for lane in queue.lanes), default=next_position):
                broker.selective.keep_groups(queue)
        broker.destinations.create_declared()
        if broker.forwarding.marks:
            broker.destinations.queue(SYNC_ADDRESS)

    def _settle_schedule(self, schedule: Schedule, gone: set[int]) -> None:
        broker, address = self._broker, schedule.address
        if gone:
            schedule.keep(lambda position: position not in gone)
        if not len(schedule):
            del broker.scheduler.schedules[address]
            return
        broker.scheduler.alarms.set(address, schedule.next_ms)
        if address.startswith("/queue/"):
            broker.destinations.queue(address)

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
    for queue in broker.destinations.queues.values():
        for lane in queue.lanes:
            yield from lane.paged.chunks()
    for history in broker.histories.histories.values():
        for block in history.blocks:
            yield block.positions
    for schedule in broker.scheduler.schedules.values():
        for _, positions in schedule.rows.chunks():
            yield positions


def forget(broker: Broker, lost: AbstractSet[int]) -> Counter[str]:
    """Take messages that are stored nowhere out of a new broker; how many of each address."""
    counted: Counter[str] = Counter()
    in_order = sorted(lost)
    for address, queue in broker.destinations.queues.items() if lost else ():
        for lane in queue.lanes:
            counted[address] += sum(position in lost for chunk in lane.paged.chunks() for position in chunk)
            lane.paged.remove(in_order)
    for address, schedule in broker.scheduler.schedules.items() if lost else ():
        counted[address] += sum(position in lost for position in schedule.positions())
        schedule.keep(lambda position: position not in lost)
    for address, history in broker.histories.histories.items() if lost else ():
        counted[address] += sum(position in lost for position in history.after(0))
        history.forget(lost)
    return +counted
