"""Messages that other brokers forward to this one: each exactly once, in order."""

from __future__ import annotations

from typing import Any

from broker_app.base.refused import Refused, internal
from broker_app.core import commands as c
from broker_app.core.delivery.consumers import Consumers
from broker_app.core.destination import QUEUE
from broker_app.core.destinations import Destinations
from broker_app.core.durability import records
from broker_app.core.durability.record import Record
from broker_app.core.message import Envelope
from broker_app.core.model import LimitUsage, Peer, Queue, Subscription
from broker_app.core.publishing.destination_limits import DestinationLimits
from broker_app.core.publishing.publisher import Publisher
from broker_app.core.publishing.resource_alarms import ResourceAlarms
from broker_app.core.remote.offset import Flow, Offset, address_of, broken, of_address
from broker_app.core.remote.sync_queue import SYNC_ADDRESS, check_names
from broker_app.core.storage.message_store import MessageStore
from broker_app.core.subscriptions import Subscriptions
from broker_app.core.turn import UNRECORDED, Turn

#: commands of an administrator for replication offsets
_FORGETTING = "mom bridge forget SENDER SOURCE"
_HANDING_OVER = "mom bridge hand-over SENDER SOURCE USER"


class InboundForwarding:
    """The flows of other brokers, and their replication offsets."""

    def __init__(
        self,
        turn: Turn,
        destinations: Destinations,
        store: MessageStore,
        consumers: Consumers,
        subscriptions: Subscriptions,
        publisher: Publisher,
        destination_limits: DestinationLimits,
        resource_alarms: ResourceAlarms,
        offsets: dict[str, Offset],
    ) -> None:
        self._turn = turn
        self._destinations = destinations
        self._store = store
        self._consumers = consumers
        self._subscriptions = subscriptions
        self._publisher = publisher
        self._destination_limits = destination_limits
        self._resource_alarms = resource_alarms
        #: replication offsets by address, and the flows that use them
        self.offsets = offsets
        self.flows: dict[str, Flow] = {}
        #: offsets to record in this turn
        self.changed_offsets: dict[Offset, None] = {}
        subscriptions.on_end.append(self._subscription_ended)

    def bridge_connected(self, command: c.BridgeConnected) -> None:
        """Create the sync queue."""
        self._destinations.queue(SYNC_ADDRESS)

    def check_begin_flow(self, command: c.BeginFlow) -> Offset:
        """The offset from which a valid flow continues. A flow with the same id ends in any case."""
        peer = command.peer
        if command.id in peer.flows:
            self._subscriptions.end(peer.subscriptions[command.id], keep_unsettled=False)
        return self._checked_offset(command)

    def begin_flow(self, command: c.BeginFlow, offset: Offset) -> None:
        """Begin a flow, and send its bridge the position from which it continues."""
        peer = command.peer
        subscription = self._sync_subscription(command)
        flow = Flow(command.id, peer.user, offset, command.target)
        address = flow.offset.address
        if address in self.flows:
            self.flows[address].break_off(
                broken(f"{flow.offset.sender} has begun it again on another connection")
            )
        self.flows[address] = peer.flows[flow.id] = flow
        self.offsets[address] = flow.offset
        self._turn.accept(peer, command.receipt)
        if not peer.paused:
            self._consumers.make_available(subscription)
        self._send_offset(offset, subscription)

    def _checked_offset(self, command: c.BeginFlow) -> Offset:
        """The offset from which a valid flow continues. Changes nothing."""
        peer = command.peer
        self._subscriptions.check_subscribable(peer, command.id)
        offset = self._offset_of(command.sender, command.source, peer.user)
        if self._destinations.check_sendable(command.target).kind != QUEUE:
            raise Refused(
                "bad-destination", f"messages can only be forwarded to queues; {command.target} is not one"
            )
        return offset

    def _sync_subscription(self, command: c.BeginFlow) -> Subscription:
        """The subscription over which a new flow receives its offset."""
        subscription = Subscription(command.peer, command.id, SYNC_ADDRESS, c.AUTO, 1, 0, None)
        subscription.since_ms = self._turn.now_ms
        subscription.queue = self._destinations.queue(SYNC_ADDRESS)
        self._consumers.join(subscription)
        self._subscriptions.enter(subscription)
        return subscription

    def _offset_of(self, sender: str, source: str, user: str) -> Offset:
        """The offset from which a flow of this user continues."""
        check_names(sender, source)
        offset = self.offsets.get(address_of(sender, source))
        if offset is None and len(self.offsets) >= self._turn.limits.offsets:
            raise Refused(
                "too-many",
                f"the broker has {self._turn.limits.offsets} replication offsets, its maximum; delete "
                f"those of brokers that no longer forward ({_FORGETTING})",
            )
        if offset is not None and offset.owner != user:
            raise Refused(
                "conflict",
                f"{sender} forwards its {source} here as the user {offset.owner}, and {user} cannot "
                f"continue before an administrator has reassigned it ({_HANDING_OVER})",
            )
        return offset or Offset(sender, source, user)

    def _send_offset(self, offset: Offset, subscription: Subscription) -> None:
        """Send the offset to the bridge that began a flow."""
        block = b"accepted:%d\ncount:%d\n" % (offset.position, offset.count)
        message = self._turn.transient_message(Envelope(SYNC_ADDRESS, block), b"")
        subscription.peer.deliveries.append((subscription, 0, message))
        subscription.delivered_directly += 1
        self._turn.schedule_flush(subscription.peer)

    def forward(self, command: c.Forward) -> None:
        """Store messages of a flow, unless they were stored before."""
        peer, accept, enqueue = command.peer, self._turn.accept, self._store.enqueue
        flow = peer.flows.get(command.flow)
        if flow is None:
            refusal = broken(f"there is no flow {command.flow!r} on this connection; begin it first")
            for _, _, receipt in command.entries:
                self._turn.refuse(peer, receipt, refusal)
            return
        offset = flow.offset
        reached, stored = offset.position, 0
        out = self._turn.out
        index, client = out.destination(offset.address), out.client(peer.client) if peer.client else b""
        last: Envelope | None = None
        queue: Queue
        plain = False
        for (envelope, body, receipt), position in zip(command.entries, command.positions, strict=True):
            if flow.broken is not None:
                self._turn.refuse(peer, receipt, flow.broken)
                continue
            fresh = reached < position < UNRECORDED
            try:
                if not fresh:
                    self._note_repeat(position)
                elif envelope is not last:
                    queue = self._target_of_flow(flow, envelope)
                    last = envelope
                    plain = envelope.options is None and queue.limit_usage is None
                if fresh and queue.limit_usage is not None:
                    self._check_forwarded(peer, queue, queue.limit_usage, len(body))
            except Exception as error:
                self._refuse_forwarded(peer, flow, receipt, error)
                continue
            if fresh:
                source = client + records.pack_origin(index, position)
                if plain:
                    enqueue(queue, envelope, body, None, source)
                else:
                    self._publisher.publish(queue, envelope, body, source, peer)
                reached = position
                stored += 1
            accept(peer, receipt)
        if stored:
            offset.position, offset.time_ms = reached, self._turn.now_ms
            offset.count += stored
            self._record_later(offset)
            self._turn.counters["published"] += stored

    def _note_repeat(self, position: int) -> None:
        """Count a message that was stored before."""
        if not 0 < position < UNRECORDED:
            raise Refused(
                "invalid", f"receipt is {position}; the position of a message is between 1 and 2^47"
            )
        self._turn.counters["duplicates"] += 1

    def _target_of_flow(self, flow: Flow, envelope: Envelope) -> Queue:
        """The queue that messages of this envelope go to; Refused when they cannot now. They are never
        blocked, because their sender keeps them until they are accepted."""
        if envelope.address != flow.target:
            raise Refused("invalid", f"flow {flow.id!r} goes to {flow.target}, not to {envelope.address}")
        if self._resource_alarms.alarm is not None:
            raise self._resource_alarms.alarm.refusal
        queue = self._destinations.target(envelope)
        assert queue is not None  # this was checked when the flow began
        return queue

    def _check_forwarded(self, peer: Peer, queue: Queue, usage: LimitUsage, size: int) -> None:
        """Refused when a queue with limits has no room for one message."""
        self._destination_limits.check_admissible(peer, usage, queue.address, size)
        if self._destination_limits.is_full(queue, size):
            self._destination_limits.emit_full(queue)
        self._destination_limits.check_room(queue, 1, size)

    def _refuse_forwarded(self, peer: Peer, flow: Flow, receipt: Any, error: Exception) -> None:
        """Refuse one message, and break the flow."""
        self._turn.counters["refused"] += 1
        flow.break_off(error if isinstance(error, Refused) else internal())
        self._turn.refuse(peer, receipt, error)

    def break_flow(self, command: c.BreakFlow) -> None:
        """Break a flow with a refusal."""
        flow = command.peer.flows.get(command.flow)
        if flow is not None:
            flow.break_off(command.refusal)
        self._turn.refuse(command.peer, command.receipt, command.refusal)

    def _subscription_ended(self, subscription: Subscription) -> None:
        flow = subscription.peer.flows.pop(subscription.id, None)
        if flow is None or self.flows.get(flow.offset.address) is not flow:
            return
        del self.flows[flow.offset.address]
        if not flow.offset.position:  # no message has arrived
            del self.offsets[flow.offset.address]

    def delete_offset(self, command: c.DeleteOffset, offset: Offset) -> None:
        """Delete an offset."""
        del self.offsets[offset.address]
        self.changed_offsets.pop(offset, None)  # messages of this batch must not record it again
        self._turn.out.record(records.forgotten(self._turn.out.destination(offset.address)))
        self._turn.accept(command.peer, command.receipt)

    def reassign_offset(self, command: c.ReassignOffset, offset: Offset) -> None:
        """Make another user the owner of an offset."""
        offset.owner = command.owner
        self._record_later(offset)
        self._turn.accept(command.peer, command.receipt)

    def check_unused(self, command: c.DeleteOffset | c.ReassignOffset) -> Offset:
        """The offset of a queue that has no flow."""
        sender, source = command.sender, command.source
        address = address_of(sender, source)
        offset = self.offsets.get(address)
        if offset is None:
            raise Refused("not-found", f"there is no replication offset of a queue {source} of {sender}")
        flow = self.flows.get(address)
        if flow is not None:
            raise Refused(
                "conflict",
                f"{sender} forwards its {source} at the moment as the user {flow.user}: pause or remove "
                "its bridge there, or end its connection here, before its replication offset is changed",
            )
        return offset

    def _record_later(self, offset: Offset) -> None:
        self.changed_offsets[offset] = None
        self._turn.follows_up = True

    def record_offsets(self) -> None:
        """Record the offset of each flow that has received messages in this turn."""
        out = self._turn.out
        for offset in self.changed_offsets:
            out.record(records.offset_set(out.destination(offset.address), offset.facts))
        self.changed_offsets.clear()

    # ------------------------------------------------------------------ recovery and following

    def apply(self, record: Record) -> None:
        """Set or delete the offset that a record names."""
        address = record.address
        if record.kind == records.OFFSET_SET:
            self.load(address, record.offset)
        else:
            self.offsets.pop(address, None)  # it may be deleted before its section was taken

    def load(self, address: str, facts: tuple[str, int, int, int]) -> None:
        """Restore an offset."""
        self.offsets[address] = of_address(address, facts)
