"""Recovery of a broker: from a snapshot of its state, then from the records that followed.

The records are applied one by one, in the order of the journal, and the broker's durable state is right after
each of them. So the same code serves a broker that starts, and one that follows another.

A delivery that was unsettled when the broker stopped waits again in its place; whether it may be a repeat
follows from the `Lane.delivered_up_to`.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet

from broker_app.core.broker import Broker
from broker_app.core.durability import records, snapshot_format
from broker_app.core.durability.record import Record
from broker_app.core.durability.records import Terms
from broker_app.core.policy import Policies
from broker_app.core.publishing.bulk_producer import is_bulk_producer
from broker_app.core.publishing.dedup import FirstMessage
from broker_app.core.remote.offset import is_offset
from broker_app.core.remote.sync_queue import SYNC_ADDRESS

_TOPIC = "/topic/"
#: flags of the record of a copy, whose message was sent to another destination or was there before
_OF_COPIES = records.HAS_ID | records.HAS_ADDRESS


class Recovery:
    """Rebuilds `broker`, which must be new: `load` the snapshot if there is one, `apply` each batch that
    followed, as long as there are any, then `finish`. Without `dedup_ids`, which take most of the time where
    all messages have one, they are not remembered: for a broker to which no client sends."""

    def __init__(self, broker: Broker, *, dedup_ids: bool = True) -> None:
        self._broker = broker
        self._dedup = records.DEDUP if dedup_ids else 0
        #: records of a destination before this position are contained in the snapshot; and of all of them
        self._since: dict[str, int] = {}
        self._all_since = 0

    def load(self, blob: bytes) -> None:
        """Restore a snapshot. Raises ValueError for one of another format."""
        broker = self._broker
        for section in snapshot_format.read(blob):
            address = section.address
            self._since[address] = section.position
            self._all_since = max(self._all_since, section.position)
            if section.terms:
                broker.durables.load(address, Terms(*section.terms))
            if section.offset:
                (broker.bulk if is_bulk_producer(address) else broker.forwarding).load(
                    address, section.offset
                )
            if section.dedup and self._dedup:
                broker.publisher.dedup_windows.load(address, section.dedup)
            broker.scheduler.load(section)
            broker.histories.load(section)
            if section.lanes:
                broker.store.load(broker.destinations.queue(address), section)

    def apply(self, destinations: Sequence[str], first_position: int, batch: bytes) -> None:
        """Apply the records of one batch, as the journal stored it."""
        broker = self._broker
        queues, apply_to_queue = broker.destinations.queues, broker.store.apply
        published, delayed, all_since = records.PUBLISHED, records.DELAYED, self._all_since
        dedup, last_of_queues, schedules = self._dedup, records.RETURNED, broker.scheduler.schedules
        record = Record(batch)
        position = first_position
        for kind, flags, priority, destination, start, end in records.walk(batch):
            address = destinations[destination]
            record.address, record.kind, record.flags, record.priority = address, kind, flags, priority
            record.position, record.start, record.end = position, start, end
            if position < all_since:
                self._apply_after_snapshot(record)
            elif (
                address in queues
                and kind <= last_of_queues
                and not (flags & delayed if kind == published else schedules)
            ):
                if flags & dedup and kind == published:
                    self._remember(record)
                apply_to_queue(queues[address], record)  # nearly all of them
            else:
                self._apply(record)
            position += 1
        broker.turn.next_position = position

    def _apply_after_snapshot(self, record: Record) -> None:
        """Apply a record unless the section of its destination contains it."""
        if record.position >= self._since.get(record.address, 0):
            self._apply(record)
        elif record.kind == records.PUBLISHED and record.flags & self._dedup:
            self._remember(record)

    def _apply(self, record: Record) -> None:
        """Give a record to the component that owns what it changes."""
        broker, address, kind = self._broker, record.address, record.kind
        if kind == records.PUBLISHED:
            self._apply_published(record)
        elif kind == records.ACKED and record.flags == records.TRIMMED:
            broker.histories.apply(record)
        elif kind == records.ACKED:
            queue = broker.destinations.queues.get(address)
            removed = 0 if queue is None else broker.store.apply(queue, record)
            if address in broker.scheduler.schedules and removed < len(record.positions):
                broker.scheduler.apply(record)
        elif kind in (records.DELIVERED, records.RETURNED):
            broker.store.apply(broker.destinations.queue(address), record)
        elif kind in (records.OFFSET_SET, records.FORGOTTEN) and is_bulk_producer(address):
            broker.bulk.apply(record)
        elif kind == records.OFFSET_SET or (kind == records.FORGOTTEN and is_offset(address)):
            broker.forwarding.apply(record)
        elif kind in (records.SUBSCRIBED, records.FORGOTTEN):
            broker.durables.apply(record)
        else:
            raise ValueError(
                f"record {record.position} has the unknown type {kind}; start a newer MOM on this data"
            )

    def _apply_published(self, record: Record) -> None:
        broker, flags = self._broker, record.flags
        if flags & self._dedup:
            self._remember(record)
        if flags & records.DELAYED:
            broker.scheduler.apply(record)
        elif record.address.startswith(_TOPIC):
            broker.histories.apply(record)
        else:
            broker.store.apply(broker.destinations.queue(record.address), record)

    def _remember(self, record: Record) -> None:
        address, position, windows = record.address, record.position, self._broker.publisher.dedup_windows
        if not record.flags & _OF_COPIES:
            if position >= self._since.get(address, 0):
                first, second = record.dedup_halves
                windows.apply(address, first, second, position, record.time_ms)
            return
        known = record.first_seen
        address = known.address or address
        # The section that counts is that of the destination it was sent to.
        if position >= self._since.get(address, 0):
            seen = FirstMessage(known.position or position, known.time_ms, True)
            windows.apply_copy(address, known.digest, seen)

    def index(self) -> None:
        """Have the dedup-ids found that were applied so far, which `finish` does, too: so that it has less to
        do, which takes a moment for each 100,000."""
        self._broker.publisher.dedup_windows.index()

    def apply_policies(self, policies: Policies) -> None:
        """Apply other policies, while records are still coming."""
        broker = self._broker
        broker.turn.policies = policies
        broker.destination_limits.policies_changed()
        broker.histories.policies_changed()
        for queue in broker.destinations.queues.values():
            queue.apply_policy(broker.destinations.policy_of(queue))

    def finish(self, next_position: int, now_ms: int = 0) -> None:
        """Make the broker ready for commands at `now_ms`: derive what is not recorded, such as
        alarms, counters of limits and groups. Queues that are empty are dropped."""
        broker = self._broker
        self.index()
        broker.turn.now_ms = now_ms
        broker.turn.next_position = next_position
        broker.scheduler.start()
        for address in broker.scheduler.schedules:
            if address.startswith("/queue/"):
                broker.destinations.queue(address)
        for address, queue in list(broker.destinations.queues.items()):
            queue.lanes = [lane for lane in queue.lanes if len(lane)]
            queue.expiring = True
            if queue.limit_usage is not None:
                queue.limit_usage.recount(0, queue.depth, next_position)
            if not queue.lanes and queue.named is None and address not in broker.scheduler.schedules:
                del broker.destinations.queues[address]
            elif queue.last_grouped >= min((lane.paged.first for lane in queue.lanes), default=next_position):
                broker.selective.keep_groups(queue)
        broker.destinations.create_declared()
        if broker.forwarding.offsets:
            broker.destinations.queue(SYNC_ADDRESS)


def live_positions(broker: Broker) -> Iterator[array[int]]:
    """All recorded positions that wait, in chunks; of a broker that was just recovered."""
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
    """Remove messages that are no longer stored from a recovered broker; returns how many of each address."""
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
