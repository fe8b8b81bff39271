"""What other brokers forward: each message once, in the order in which it was sent."""

from __future__ import annotations

from typing import Any

from broker_app.core import commands as c
from broker_app.core import records
from broker_app.core.admitting import Admitting
from broker_app.core.destination import QUEUE
from broker_app.core.errors import Refused, internal
from broker_app.core.guard import Guard
from broker_app.core.marks import SYNC_ADDRESS, Flow, Mark, address_of, broken, check_names
from broker_app.core.message import Envelope, Message
from broker_app.core.peer import Peer
from broker_app.core.queue import Queue
from broker_app.core.state import UNRECORDED
from broker_app.core.subscription import Subscription

#: what an administrator does about marks
_FORGETTING = "mom bridge forget SENDER SOURCE"
_HANDING_OVER = "mom bridge hand-over SENDER SOURCE USER"


class Receiving(Admitting):
    """Flows of other brokers, from their beginning to their end."""

    def _meet_bridge(self, command: c.MeetBridge) -> None:
        self.queue(SYNC_ADDRESS)

    def _begin_flow(self, command: c.BeginFlow) -> None:
        peer = command.peer
        if command.id in peer.flows:
            self._end_subscription(peer.subscriptions[command.id], keep_unsettled=False)
        try:
            mark = self._checked_mark(command)
        except Exception as error:
            self._refuse(peer, command.receipt, error)
            return
        flow = Flow(self._sync_subscription(command), mark, command.target)
        address = flow.mark.address
        if address in self.flows:
            self.flows[address].break_off(broken(f"{flow.mark.sender} has begun it anew elsewhere"))
        self.flows[address] = peer.flows[flow.id] = flow
        self.marks[address] = flow.mark
        self._accept(peer, command.receipt)
        if not peer.paused:
            self._offer(flow.subscription)
        self._say_mark(flow)

    def _checked_mark(self, command: c.BeginFlow) -> Mark:
        """The mark from which a flow that may begin goes on. Changes nothing."""
        peer = command.peer
        self._check_subscribable(peer, command.id)
        mark = self._mark_of(command.sender, command.source, peer.user)
        if self._check_sendable(command.target).kind != QUEUE:
            raise Refused(
                "bad-destination", f"messages are forwarded to queues, and {command.target} is none"
            )
        return mark

    def _sync_subscription(self, command: c.BeginFlow) -> Subscription:
        """The subscription by which a new flow hears of its mark."""
        subscription = Subscription(command.peer, command.id, SYNC_ADDRESS, c.AUTO, 1, 0, None)
        subscription.since_ms = self.now_ms
        subscription.queue = self.queue(SYNC_ADDRESS)
        self._join(subscription)
        self._enter(subscription)
        return subscription

    def _mark_of(self, sender: str, source: str, user: str) -> Mark:
        """The mark that a flow of this user goes on from."""
        check_names(sender, source)
        mark = self.marks.get(address_of(sender, source))
        if mark is None and len(self.marks) >= self.limits.marks:
            raise Refused(
                "too-many",
                f"the broker knows how far {self.limits.marks} queues of other brokers have come, "
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

    def _say_mark(self, flow: Flow) -> None:
        """Tell who began a flow from where it goes on."""
        mark, subscription = flow.mark, flow.subscription
        block = b"accepted:%d\ncount:%d\n" % (mark.position, mark.count)
        self._unrecorded += 1
        message = Message(Envelope(SYNC_ADDRESS, block), b"", self._unrecorded, self.now_ms, False)
        flow.peer.deliveries.append((subscription, 0, message))
        subscription.handed_out += 1
        self._rouse(flow.peer)

    def _forward(self, command: c.Forward) -> None:
        peer, accept, enqueue = command.peer, self._accept, self._enqueue
        flow = peer.flows.get(command.flow)
        if flow is None:
            refusal = broken(f"flow {command.flow!r} has not begun on this connection, or has ended")
            for _, _, receipt in command.entries:
                self._refuse(peer, receipt, refusal)
            return
        mark = flow.mark
        reached, stored = mark.position, 0
        last: Envelope | None = None
        queue: Queue
        plain = False
        for (envelope, body, receipt), position in zip(command.entries, command.positions, strict=True):
            if flow.broken is not None:
                self._refuse(peer, receipt, flow.broken)
                continue
            fresh = reached < position < UNRECORDED
            try:
                if not fresh:
                    self._note_repeat(position)
                elif envelope is not last:
                    queue = self._target_of_flow(flow, envelope)
                    last = envelope
                    plain = envelope.special is None and queue.guarded is None
                if fresh and queue.guarded is not None:
                    self._check_forwarded(peer, queue, queue.guarded, len(body))
            except Exception as error:
                self._refuse_forwarded(flow, receipt, error)
                continue
            if fresh:
                if plain:
                    enqueue(queue, envelope, body)
                else:
                    self._take_in(queue, envelope, body)
                reached = position
                stored += 1
            accept(peer, receipt)
        if stored:
            mark.position, mark.time_ms = reached, self.now_ms
            mark.count += stored
            self._marked[mark] = None
            self.counters["published"] += stored

    def _note_repeat(self, position: int) -> None:
        """A message came that is here already."""
        if not 0 < position < UNRECORDED:
            raise Refused("invalid", f"receipt is {position}; the positions of messages go from 1 to 2^47")
        self.counters["duplicates"] += 1

    def _target_of_flow(self, flow: Flow, envelope: Envelope) -> Queue:
        """Where the messages of this envelope go; Refused when they cannot now. They never wait for room, for
        they are safe where they come from."""
        if envelope.address != flow.target:
            raise Refused("invalid", f"flow {flow.id!r} goes to {flow.target}, and not to {envelope.address}")
        if self.strain is not None:
            raise self.strain.refusal
        queue = self._target(envelope)
        assert queue is not None  # it was seen to be a queue when the flow began
        return queue

    def _check_forwarded(self, peer: Peer, queue: Queue, guard: Guard, size: int) -> None:
        """Refused when a queue with limits has no room for one message."""
        self._check_admissible(peer, guard, queue.address, size)
        if self.is_full(queue, size):
            self._tell_once(queue)
        self._check_room(queue, 1, size)

    def _refuse_forwarded(self, flow: Flow, receipt: Any, error: Exception) -> None:
        """Refuse one message, and take nothing that comes behind it."""
        self.counters["refused"] += 1
        flow.break_off(error if isinstance(error, Refused) else internal())
        self._refuse(flow.peer, receipt, error)

    def _break_flow(self, command: c.BreakFlow) -> None:
        flow = command.peer.flows.get(command.flow)
        if flow is not None:
            flow.break_off(command.refusal)
        self._refuse(command.peer, command.receipt, command.refusal)

    def _end_subscription(self, subscription: Subscription, *, keep_unsettled: bool) -> None:
        super()._end_subscription(subscription, keep_unsettled=keep_unsettled)
        flow = subscription.peer.flows.pop(subscription.id, None)
        if flow is None or self.flows.get(flow.mark.address) is not flow:
            return
        del self.flows[flow.mark.address]
        if not flow.mark.position:  # nothing ever came
            del self.marks[flow.mark.address]

    def _forget_mark(self, command: c.ForgetMark) -> None:
        try:
            mark = self._resting_mark(command.sender, command.source)
        except Exception as error:
            self._refuse(command.peer, command.receipt, error)
            return
        del self.marks[mark.address]
        self._marked.pop(mark, None)  # what came in this batch is not to bring it back
        self._out.record(records.forgotten(self._out.destination(mark.address)))
        self._accept(command.peer, command.receipt)

    def _hand_mark_over(self, command: c.HandMarkOver) -> None:
        try:
            mark = self._resting_mark(command.sender, command.source)
        except Exception as error:
            self._refuse(command.peer, command.receipt, error)
            return
        mark.owner = command.owner
        self._marked[mark] = None
        self._accept(command.peer, command.receipt)

    def _resting_mark(self, sender: str, source: str) -> Mark:
        """The mark of a queue that nobody forwards at the moment."""
        address = address_of(sender, source)
        mark = self.marks.get(address)
        if mark is None:
            raise Refused("not-found", f"nothing is known here of a queue {source} of {sender}")
        flow = self.flows.get(address)
        if flow is not None:
            raise Refused(
                "conflict",
                f"{sender} forwards its {source} at the moment as the user {flow.peer.user}: pause or remove "
                "its bridge there, or end its connection here, before its mark is changed",
            )
        return mark

    def _record_marks(self) -> None:
        """One record for each flow of which something came in this batch."""
        out = self._out
        for mark in self._marked:
            out.record(records.marked(out.destination(mark.address), mark.facts))
        self._marked.clear()
