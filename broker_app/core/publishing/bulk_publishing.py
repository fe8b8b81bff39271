"""Batches of rows that are published exactly once, all of them or none (`commands.PublishBulk`)."""

from __future__ import annotations

from collections.abc import Iterator

from broker_app.base.refused import Refused
from broker_app.core import commands as c
from broker_app.core.destination import QUEUE, TOPIC, parse
from broker_app.core.destinations import Destinations
from broker_app.core.durability import records
from broker_app.core.durability.record import Record
from broker_app.core.message import Envelope
from broker_app.core.model import Queue
from broker_app.core.publishing.admission import Admission
from broker_app.core.publishing.bulk_producer import BulkProducer, address_of, check_batch, of_address
from broker_app.core.publishing.publisher import Publisher
from broker_app.core.publishing.resource_alarms import ResourceAlarms
from broker_app.core.storage.message_store import MessageStore
from broker_app.core.turn import Turn

#: when there are too many producers, those that published nothing for so long are forgotten
IDLE_MS = 7 * 24 * 3600 * 1000
#: rows for one queue that are published between two looks at the clock, less one: a mask
_ROWS = 15


class BulkPublishing:
    """Publishes batches, and knows how far their producers have come."""

    def __init__(
        self,
        turn: Turn,
        destinations: Destinations,
        store: MessageStore,
        publisher: Publisher,
        admission: Admission,
        resource_alarms: ResourceAlarms,
    ) -> None:
        self._turn = turn
        self._destinations = destinations
        self._store = store
        self._publisher = publisher
        self._admission = admission
        self._resource_alarms = resource_alarms
        #: by address
        self.producers: dict[str, BulkProducer] = {}

    def publish(self, command: c.PublishBulk) -> c.Steps | None:
        """Publish all rows, or none, and record how far their producer has come."""
        return self._turn.in_parts(c.Steps(command.peer, self._publish(command)))

    def _publish(self, command: c.PublishBulk) -> Iterator[None]:
        try:
            producer = self._producer_of(command)
            yield from self._check(command)
        except Exception as error:
            self._turn.refuse(command.peer, command.receipt, error)
            return
        yield from self._publish_rows(command, producer)
        self._advance(command, producer)

    def _check(self, command: c.PublishBulk) -> Iterator[None]:
        """Refused unless all rows of a batch can be published now."""
        self._resource_alarms.check_alarm(adds=True)
        if not command.rows_before:
            for address in command.needs:
                if self._destinations.check_sendable(address).kind not in (QUEUE, TOPIC):
                    raise Refused("bad-destination", f"{address} is neither a queue nor a topic")
                yield
            yield from self._admission.check_room(command.peer, command.needs)

    def _producer_of(self, command: c.PublishBulk) -> BulkProducer:
        """The producer, which must be at the rows of this command."""
        check_batch(command.producer, command.batch)
        producer = self.producers.get(address_of(command.producer))
        if producer is None:
            if len(self.producers) >= self._turn.limits.bulk_producers:
                self._check_replaceable()
            producer = BulkProducer(command.producer, command.owner)
        elif producer.owner != command.owner:
            raise Refused(
                "conflict",
                f"the producer {command.producer} belongs to the user {producer.owner}; take another name",
            )
        if command.batch < producer.next_batch:
            raise Refused("conflict", f"batch {command.batch} of {producer.name} was published before")
        half_way = command.batch, command.rows_before
        if (producer.rows or command.rows_before) and half_way != (producer.next_batch, producer.rows):
            raise Refused(
                "conflict",
                f"{producer.rows} rows of batch {producer.next_batch} of {producer.name} were published, and "
                f"its other rows are not staged here any more, so batch {command.batch} cannot be published "
                "exactly once. After DELETE /api/v1/bulk/producers/NAME, all rows are published again",
            )
        return producer

    def _check_replaceable(self) -> None:
        """Refused unless producers can be forgotten, because they were idle for long."""
        if not self._idle():
            raise Refused(
                "too-many",
                f"the broker knows {self._turn.limits.bulk_producers} producers of batches, its maximum, and "
                "all of them published in the last 7 days; delete some: DELETE /api/v1/bulk/producers/NAME",
            )

    def _idle(self) -> list[BulkProducer]:
        before_ms = self._turn.now_ms - IDLE_MS
        return [one for one in self.producers.values() if one.time_ms < before_ms and not one.rows]

    def _publish_rows(self, command: c.PublishBulk, producer: BulkProducer) -> Iterator[None]:
        enqueue, publish = self._store.enqueue, self._publisher.publish
        source = self._turn.out.client(producer.client)
        last: Envelope | None = None
        queue: Queue | None = None
        plain = False
        for at, (envelope, body) in enumerate(command.entries):
            if envelope is not last:
                queue, last = self._target(envelope), envelope
                plain = queue is not None and envelope.options is None
            if plain:
                enqueue(queue, envelope, body, None, source)  # type: ignore[arg-type]  # `plain` implies a queue
            else:
                publish(queue, envelope, body, source, command.peer)
            if not plain or at & _ROWS == 0:
                yield

    def _advance(self, command: c.PublishBulk, producer: BulkProducer) -> None:
        """Record how far a producer has come, when its rows are published."""
        turn, address = self._turn, producer.address
        if address not in self.producers and len(self.producers) >= turn.limits.bulk_producers:
            for idle in self._idle():
                self._forget(idle)
        turn.counters["published"] += len(command.entries)
        producer.time_ms = turn.now_ms
        producer.rows = 0 if command.last else command.rows_before + len(command.entries)
        producer.next_batch = command.batch + command.last
        self.producers[address] = producer
        turn.out.record(records.offset_set(turn.out.destination(address), producer.facts))
        turn.accept(command.peer, command.receipt)

    def _target(self, envelope: Envelope) -> Queue | None:
        """The queue of an envelope; None for a topic. What was checked with the first rows counts for all."""
        destination = parse(envelope.address)
        return self._destinations.queue(envelope.address) if destination.kind == QUEUE else None

    def check_delete(self, command: c.DeleteBulkProducer) -> BulkProducer:
        """The producer to forget; Refused if it is not known."""
        producer = self.producers.get(address_of(command.producer))
        if producer is None:
            raise Refused("not-found", f"there is no producer of batches {command.producer[:80]!r}")
        return producer

    def delete(self, command: c.DeleteBulkProducer, producer: BulkProducer) -> None:
        """Forget a producer: a batch that it sends again is published again."""
        self._forget(producer)
        self._turn.accept(command.peer, command.receipt)

    def _forget(self, producer: BulkProducer) -> None:
        del self.producers[producer.address]
        self._turn.out.record(records.forgotten(self._turn.out.destination(producer.address)))

    # ------------------------------------------------------------------ recovery and following

    def apply(self, record: Record) -> None:
        """Set or forget the producer that a record names."""
        if record.kind == records.OFFSET_SET:
            self.load(record.address, record.offset)
        else:
            self.producers.pop(record.address, None)  # it may be forgotten before its section was taken

    def load(self, address: str, facts: tuple[str, int, int, int]) -> None:
        """Restore a producer."""
        self.producers[address] = of_address(address, facts)
