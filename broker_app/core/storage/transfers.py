"""Transfers: an operator deletes, moves or copies waiting messages by position.

A move publishes the message again at its target, under its id, and removes it from its source, in one batch:
it is always in exactly one of the two. Delivery attempts begin at 0 again. Unsettled messages are not
touched."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from broker_app.base.refused import Refused
from broker_app.core import commands as c
from broker_app.core.delivery.unsettled import UnsettledDeliveries
from broker_app.core.destination import (
    DURABLE_PREFIX,
    QUEUE,
    is_reserved,
    parse,
    topic_of_dead_letters,
)
from broker_app.core.destinations import Destinations
from broker_app.core.durability import records
from broker_app.core.header_block import group
from broker_app.core.message import (
    DeliveryOptions,
    Envelope,
    Message,
)
from broker_app.core.model import Peer, Queue
from broker_app.core.policy import FLOW_CONTROL
from broker_app.core.publishing.destination_limits import DestinationLimits
from broker_app.core.publishing.resource_alarms import ResourceAlarms
from broker_app.core.selective.delivery import SelectiveDelivery
from broker_app.core.storage import dead_letter_headers
from broker_app.core.storage.message_store import MessageStore
from broker_app.core.storage.scheduler import Scheduler
from broker_app.core.turn import UNRECORDED, Turn

DONE, GONE, UNSETTLED, REFUSED, FULL = "done", "gone", "unsettled", "refused", "full"


class Transfers:
    """Moves, copies, deletes and inserts messages."""

    def __init__(
        self,
        turn: Turn,
        destinations: Destinations,
        store: MessageStore,
        scheduler: Scheduler,
        selective: SelectiveDelivery,
        unsettled: UnsettledDeliveries,
        destination_limits: DestinationLimits,
        resource_alarms: ResourceAlarms,
    ) -> None:
        self._turn = turn
        self._destinations = destinations
        self._store = store
        self._scheduler = scheduler
        self._selective = selective
        self._unsettled = unsettled
        self._destination_limits = destination_limits
        self._resource_alarms = resource_alarms

    def check_transfer(self, command: c.Transfer) -> Queue:
        """The source queue; Refused when messages cannot be moved to the target."""
        source = self._source(command.source)
        if command.target:
            self._resource_alarms.check_alarm(adds=command.keep)
        if command.target not in ("", c.ORIGIN):
            self._check_target(source, command.target)
        return source

    def transfer(self, command: c.Transfer, source: Queue) -> None:
        """Delete, move or copy messages, each by itself."""
        waiting = self._store.waiting(source, {chosen.position for chosen in command.chosen})
        in_lanes = set(waiting)
        copies = _Copies(command)
        results: list[TransferResult] = []
        for chosen in command.chosen:
            results.append(self._transfer_one(command, source, chosen, waiting, copies))
            if results[-1].status == FULL:
                break
        if not command.keep:
            done = {moved.position for moved in results if moved.status == DONE} & in_lanes
            self.remove(source, done, records.MOVED if command.target else records.PURGED, copies.read)
        missing = {moved.position for moved in results if moved.status == GONE}
        held = {holding.message.position for holding in self._unsettled.of(source)} if missing else ()
        self._turn.accept(
            command.peer,
            command.receipt,
            [m._replace(status=UNSETTLED) if m.position in held else m for m in results],
        )

    def _transfer_one(
        self,
        command: c.Transfer,
        source: Queue,
        chosen: c.Chosen,
        waiting: dict[int, Message | None],
        copies: _Copies,
    ) -> TransferResult:
        position = chosen.position
        if position not in waiting:
            return self._of_scheduled(command, source, chosen)
        if not command.target:
            del waiting[position]
            return TransferResult(position, DONE)
        message = waiting.pop(position)
        if message is None:
            if chosen.record is None:
                return TransferResult(position, REFUSED, detail="its body is in the journal and was not read")
            message = source.reader.message(chosen.record, position)
            message.attempts = source.lane(source.lane_of(message)).attempts_of(position)
            copies.read[position] = message
        try:
            address, envelope, lost = copies.envelope(message, chosen.lines)
            target = self._check_target(source, address)
        except Exception as error:
            return TransferResult(position, REFUSED, detail=self._turn.detail_of(command.peer, error))
        moved = self._place(command.peer, target, envelope, message.body, self._turn.ids.of(message))
        return moved._replace(position=position, lines=lost if moved.status == DONE else b"")

    def _of_scheduled(self, command: c.Transfer, source: Queue, chosen: c.Chosen) -> TransferResult:
        """A message that is not in its queue yet can be deleted, which cancels it, and nothing else."""
        position, schedule = chosen.position, self._scheduler.schedules.get(source.address)
        due_ms = records.due_of(chosen.record) if chosen.record else 0
        if schedule is None or not due_ms or not schedule.holds(due_ms, position):
            return TransferResult(position, GONE)
        if command.target:
            return TransferResult(position, REFUSED, detail="it is not due; it can be moved when it is")
        self._scheduler.cancel(source.address, [(due_ms, position)], records.PURGED)
        return TransferResult(position, DONE)

    def check_insert(self, command: c.Insert) -> Queue:
        """The queue to which messages are added."""
        self._resource_alarms.check_alarm(adds=True)
        return self._check_target(None, command.target)

    def insert(self, command: c.Insert, target: Queue) -> None:
        """Add messages with ids of their own."""
        results: list[TransferResult] = []
        for message_id, envelope, body in command.entries:
            results.append(self._place(command.peer, target, envelope, body, message_id))
            if results[-1].status == FULL:
                break
        self._turn.counters["published"] += sum(moved.status == DONE for moved in results)
        self._turn.accept(command.peer, command.receipt, results)

    def _place(
        self, peer: Peer, target: Queue, envelope: Envelope, body: bytes, message_id: bytes
    ) -> TransferResult:
        """Put a message with an id of its own into a queue that has room for it."""
        most = target.policy.max_message_bytes
        if 0 < most < len(body):
            return TransferResult(
                0, REFUSED, detail=f"the body has {len(body)} bytes; {most} are taken there"
            )
        try:
            self._destination_limits.check_room(target, 1, len(body))
        except Exception as error:
            waits = isinstance(error, Refused) and target.policy.limit_behavior == FLOW_CONTROL
            return TransferResult(0, FULL if waits else REFUSED, detail=self._turn.detail_of(peer, error))
        message = self._store.enqueue(target, envelope, body, message_id)
        if envelope.options is not None and envelope.options.group:
            self._selective.note_group(target, message)
        return TransferResult(message.position, DONE, message, target.address)

    def _source(self, address: str) -> Queue:
        queue = self._destinations.queues.get(address)
        if queue is None and address in self._scheduler.schedules and parse(address).kind == QUEUE:
            queue = self._destinations.queue(address)
        if queue is None or not queue.durable:
            raise Refused("not-found", f"there is no queue {address} with messages to move")
        return queue

    def _check_target(self, source: Queue | None, address: str) -> Queue:
        """The target queue, created when it does not exist. Refused when it cannot be a target."""
        if source is not None and address == source.address:
            raise Refused("invalid", f"the message is already in {address}")
        if address.startswith(DURABLE_PREFIX):
            if address not in self._destinations.named:
                raise Refused("not-found", f"the durable subscription of {address} was deleted")
            return self._destinations.named[address].queue
        destination = self._destinations.check_sendable(address)
        own = is_reserved(destination.name) and topic_of_dead_letters(destination) is None
        if destination.kind != QUEUE or own:
            raise Refused("bad-destination", f"messages can only be moved to queues; {address} is not one")
        return self._destinations.queue(address)

    def remove(
        self, queue: Queue, gone: set[int], cause: int, read: Mapping[int, Message], reason: str = ""
    ) -> None:
        """Remove waiting messages from the middle of their lanes; `read` are those not in memory that were
        read."""
        if not gone:
            return
        known = [message for position, message in read.items() if position in gone]
        known += [message for message in self._store.take_out(queue, gone) if message.recorded]
        queue.counters.removed += len(gone)
        unknown = gone.difference(message.position for message in known)
        self._store.record_ends(
            queue, known, sorted(position for position in unknown if position < UNRECORDED), cause, reason
        )
        self._destination_limits.recount(queue)
        if queue.available:  # the next messages may have to be read back
            self._store.mark_dirty(queue)


class TransferResult(NamedTuple):
    """The result for one message: `status` is one of the constants above; messages behind one that is FULL
    were not tried, because messages are blocked there. `message` is the new one at `target`, `lines` are the
    header lines that were removed from a dead letter, `detail` is the reason when it was refused."""

    position: int
    status: str
    message: Message | None = None
    target: str = ""
    lines: bytes = b""
    detail: str = ""


class _Copies:
    """The envelopes of messages that one Transfer publishes; messages with a common one still share it."""

    def __init__(self, command: c.Transfer) -> None:
        self._target = command.target
        self._revive = command.revive
        #: messages that were not in memory, by position
        self.read: dict[int, Message] = {}
        self._made: dict[tuple[Envelope, int, bytes], tuple[str, Envelope, bytes]] = {}

    def envelope(self, message: Message, lines: bytes) -> tuple[str, Envelope, bytes]:
        """The target, the envelope there, and the header lines that it lost. Refused without an origin."""
        key = (message.envelope, message.expires_ms, lines)
        made = self._made.get(key)
        if made is None:
            made = self._made[key] = self._make(message, lines)
        return made

    def _make(self, message: Message, lines: bytes) -> tuple[str, Envelope, bytes]:
        old = message.envelope
        block, lost = dead_letter_headers.divide(old.block) if self._revive else (old.block, b"")
        address = self._target
        if address == c.ORIGIN:
            address = dead_letter_headers.origin_of(old.block)
            if not address:
                raise Refused("invalid", "it is not a dead letter: its headers name no origin")
        shown = address
        if address.startswith(DURABLE_PREFIX):  # clients know the topic that it was sent to
            shown = dead_letter_headers.sent_to(old.block) or old.address
        envelope = Envelope(
            shown,
            block + lines,
            persistent=old.persistent,
            priority=old.priority,
            expires_ms=message.expires_ms,
            # It keeps its message group; delay and deduplication apply only when a message is sent.
            options=DeliveryOptions(group=name) if (name := group(block)) else None,
        )
        return address, envelope, lost
