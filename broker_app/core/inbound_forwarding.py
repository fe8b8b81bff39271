"""Messages that other brokers forward: each once, in the order in which it was sent."""

from __future__ import annotations

from typing import Any

from broker_app.core import commands as c
from broker_app.core import records
from broker_app.core.consumers import Consumers
from broker_app.core.destination import QUEUE
from broker_app.core.destination_limits import DestinationLimits
from broker_app.core.destinations import Destinations
from broker_app.core.errors import Refused, internal
from broker_app.core.message import Envelope
from broker_app.core.message_store import MessageStore
from broker_app.core.model import LimitUsage, Peer, Queue, Subscription
from broker_app.core.offset import Flow, Mark, address_of, broken, of_address
from broker_app.core.publisher import Publisher
from broker_app.core.records import Record
from broker_app.core.resource_alarms import ResourceAlarms
from broker_app.core.subscriptions import Subscriptions
from broker_app.core.sync_queue import SYNC_ADDRESS, check_names
from broker_app.core.turn import UNRECORDED, Turn

#: what an administrator does about marks
_FORGETTING = "mom bridge forget SENDER SOURCE"
_HANDING_OVER = "mom bridge hand-over SENDER SOURCE USER"


class InboundForwarding:
    """Flows of other brokers, from their beginning to their end."""

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
        marks: dict[str, Mark],
    ) -> None:
        self._turn = turn
        self._destinations = destinations
        self._store = store
        self._consumers = consumers
        self._subscriptions = subscriptions
        self._publisher = publisher
        self._destination_limits = destination_limits
        self._resource_alarms = resource_alarms
        #: how far other brokers have come, by the marks' addresses, and who forwards now
        self.marks = marks
        self.flows: dict[str, Flow] = {}
        #: marks that are to be recorded in this turn
        self.changed_marks: dict[Mark, None] = {}
        subscriptions.on_end.append(self._subscription_ended)

    def bridge_connected(self, command: c.BridgeConnected) -> None:
        self._destinations.queue(SYNC_ADDRESS)

    def check_begin_flow(self, command: c.BeginFlow) -> Mark:
        """The mark from which a flow that may begin goes on. The flow that has its id ends in any case."""
        peer = command.peer
        if command.id in peer.flows:
            self._subscriptions.end(peer.subscriptions[command.id], keep_unsettled=False)
        return self._checked_mark(command)

    def begin_flow(self, command: c.BeginFlow, mark: Mark) -> None:
        """Begin a flow, and send its bridge the position from which it goes on."""
        peer = command.peer
        subscription = self._sync_subscription(command)
        flow = Flow(command.id, peer.user, mark, command.target)
        address = flow.mark.address
        if address in self.flows:
            self.flows[address].break_off(broken(f"{flow.mark.sender} has begun it anew elsewhere"))
        self.flows[address] = peer.flows[flow.id] = flow
        self.marks[address] = flow.mark
        self._turn.accept(peer, command.receipt)
        if not peer.paused:
            self._consumers.make_available(subscription)
        self._send_mark(mark, subscription)

    def _checked_mark(self, command: c.BeginFlow) -> Mark:
        """The mark from which a flow that may begin goes on. Changes nothing."""
        peer = command.peer
        self._subscriptions.check_subscribable(peer, command.id)
        mark = self._mark_of(command.sender, command.source, peer.user)
        if self._destinations.check_sendable(command.target).kind != QUEUE:
            raise Refused(
                "bad-destination", f"messages are forwarded to queues, and {command.target} is none"
            )
        return mark

    def _sync_subscription(self, command: c.BeginFlow) -> Subscription:
        """The subscription over which a new flow receives its mark."""
        subscription = Subscription(command.peer, command.id, SYNC_ADDRESS, c.AUTO, 1, 0, None)
        subscription.since_ms = self._turn.now_ms
        subscription.queue = self._destinations.queue(SYNC_ADDRESS)
        self._consumers.join(subscription)
        self._subscriptions.enter(subscription)
        return subscription

    def _mark_of(self, sender: str, source: str, user: str) -> Mark:
        """The mark that a flow of this user goes on from."""
        check_names(sender, source)
        mark = self.marks.get(address_of(sender, source))
        if mark is None and len(self.marks) >= self._turn.limits.marks:
            raise Refused(
                "too-many",
                f"the broker knows how far {self._turn.limits.marks} queues of other brokers have come, "
                "and that is as many as it can; an administrator may have it forget those of brokers that "
                f"are gone ({_FORGETTING})",
            )
        if mark is not None and mark.owner != user:
            raise Refused(
                "conflict",
                f"{sender} forwards its {source} here as the user {mark.owner}, and {user} cannot go on with "
                f"it before an administrator has handed it over ({_HANDING_OVER})",
            )
        return mark or Mark(sender, source, user)

    def _send_mark(self, mark: Mark, subscription: Subscription) -> None:
        """Send the mark to the bridge that began a flow."""
        block = b"accepted:%d\ncount:%d\n" % (mark.position, mark.count)
        message = self._turn.transient_message(Envelope(SYNC_ADDRESS, block), b"")
        subscription.peer.deliveries.append((subscription, 0, message))
        subscription.handed_out += 1
        self._turn.schedule_flush(subscription.peer)

    def forward(self, command: c.Forward) -> None:
        peer, accept, enqueue = command.peer, self._turn.accept, self._store.enqueue
        flow = peer.flows.get(command.flow)
        if flow is None:
            refusal = broken(f"flow {command.flow!r} has not begun on this connection, or has ended")
            for _, _, receipt in command.entries:
                self._turn.refuse(peer, receipt, refusal)
            return
        mark = flow.mark
        reached, stored = mark.position, 0
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
                    plain = envelope.special is None and queue.limit_usage is None
                if fresh and queue.limit_usage is not None:
                    self._check_forwarded(peer, queue, queue.limit_usage, len(body))
            except Exception as error:
                self._refuse_forwarded(peer, flow, receipt, error)
                continue
            if fresh:
                if plain:
                    enqueue(queue, envelope, body)
                else:
                    self._publisher.publish(queue, envelope, body)
                reached = position
                stored += 1
            accept(peer, receipt)
        if stored:
            mark.position, mark.time_ms = reached, self._turn.now_ms
            mark.count += stored
            self.changed_marks[mark] = None
            self._turn.counters["published"] += stored

    def _note_repeat(self, position: int) -> None:
        """Count a message that is here already."""
        if not 0 < position < UNRECORDED:
            raise Refused("invalid", f"receipt is {position}; the positions of messages go from 1 to 2^47")
        self._turn.counters["duplicates"] += 1

    def _target_of_flow(self, flow: Flow, envelope: Envelope) -> Queue:
        """Where the messages of this envelope go; Refused when they cannot now. They never wait for room, for
        they are safe where they come from."""
        if envelope.address != flow.target:
            raise Refused("invalid", f"flow {flow.id!r} goes to {flow.target}, and not to {envelope.address}")
        if self._resource_alarms.alarm is not None:
            raise self._resource_alarms.alarm.refusal
        queue = self._destinations.target(envelope)
        assert queue is not None  # it was seen to be a queue when the flow began
        return queue

    def _check_forwarded(self, peer: Peer, queue: Queue, guard: LimitUsage, size: int) -> None:
        """Refused when a queue with limits has no room for one message."""
        self._destination_limits.check_admissible(peer, guard, queue.address, size)
        if self._destination_limits.is_full(queue, size):
            self._destination_limits.emit_full(queue)
        self._destination_limits.check_room(queue, 1, size)

    def _refuse_forwarded(self, peer: Peer, flow: Flow, receipt: Any, error: Exception) -> None:
        """Refuse one message, and take nothing that comes behind it."""
        self._turn.counters["refused"] += 1
        flow.break_off(error if isinstance(error, Refused) else internal())
        self._turn.refuse(peer, receipt, error)

    def break_flow(self, command: c.BreakFlow) -> None:
        flow = command.peer.flows.get(command.flow)
        if flow is not None:
            flow.break_off(command.refusal)
        self._turn.refuse(command.peer, command.receipt, command.refusal)

    def _subscription_ended(self, subscription: Subscription) -> None:
        flow = subscription.peer.flows.pop(subscription.id, None)
        if flow is None or self.flows.get(flow.mark.address) is not flow:
            return
        del self.flows[flow.mark.address]
        if not flow.mark.position:  # nothing ever came
            del self.marks[flow.mark.address]

    def forget_mark(self, command: c.DeleteMark, mark: Mark) -> None:
        """Delete a mark."""
        del self.marks[mark.address]
        self.changed_marks.pop(mark, None)  # what came in this batch is not to bring it back
        self._turn.out.record(records.forgotten(self._turn.out.destination(mark.address)))
        self._turn.accept(command.peer, command.receipt)

    def reassign_mark(self, command: c.ReassignMark, mark: Mark) -> None:
        """Let another user go on from a mark."""
        mark.owner = command.owner
        self.changed_marks[mark] = None
        self._turn.accept(command.peer, command.receipt)

    def check_unused(self, command: c.DeleteMark | c.ReassignMark) -> Mark:
        """The mark of a queue that nobody forwards at the moment."""
        sender, source = command.sender, command.source
        address = address_of(sender, source)
        mark = self.marks.get(address)
        if mark is None:
            raise Refused("not-found", f"nothing is known here of a queue {source} of {sender}")
        flow = self.flows.get(address)
        if flow is not None:
            raise Refused(
                "conflict",
                f"{sender} forwards its {source} at the moment as the user {flow.user}: pause or remove "
                "its bridge there, or end its connection here, before its mark is changed",
            )
        return mark

    def record_marks(self) -> None:
        """One record for each flow of which something came in this batch."""
        out = self._turn.out
        for mark in self.changed_marks:
            out.record(records.marked(out.destination(mark.address), mark.facts))
        self.changed_marks.clear()

    # ------------------------------------------------------------------ recovery and following

    def apply(self, record: Record) -> None:
        """Set or delete the mark that a record names."""
        address = record.address
        if record.kind == records.MARKED:
            self.load(address, record.mark)
        else:
            self.marks.pop(address, None)  # it may be deleted before its section was taken

    def load(self, address: str, facts: tuple[str, int, int, int]) -> None:
        """Take over a mark."""
        self.marks[address] = of_address(address, facts)
