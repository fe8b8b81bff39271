"""Delivery for queues whose consumers do not all take every message: selectors and message groups.

A queue is delivered this way while it has a `SelectiveState`, and in the plain way again when nothing needs
one any more. Lanes do not change, so all other operations on a queue are the same. The matches of a consumer
may be anywhere in a backlog that is larger than memory: bodies in the journal are read once, in long runs,
matched for all selector groups together and dropped; only the sequences of the matches are kept. Bodies are
read again when there is credit for them.

Messages leave out of order here, so `Lane.delivered_up_to` does not show which were delivered: each first
delivery that has to be settled is recorded by itself, as one attempt (a RETURNED record, 16 bytes a message).
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import chain

from broker_app.core import commands as c
from broker_app.core.message import Message, MessageIds
from broker_app.core.model import Queue, Subscription
from broker_app.core.selective.index import SelectorGroup
from broker_app.core.selective.state import SelectiveState, restore_returned
from broker_app.core.storage.lane import Lane, sequence_of
from broker_app.core.storage.message_store import MessageStore
from broker_app.core.turn import Turn


class SelectiveDelivery:
    """Begins and ends selective delivery of queues, and keeps its state up to date."""

    def __init__(self, turn: Turn, store: MessageStore) -> None:
        self._turn = turn
        self._store = store

    def add_consumer(self, subscription: Subscription) -> None:
        """Find the group of a new consumer. Messages of a named subscription were selected before."""
        queue = subscription.queue
        text = subscription.selector.text if subscription.selector and queue.named is None else ""
        if text and queue.selective is None:
            self._begin(queue)
        state = queue.selective
        if state is None:
            return
        chosen = state.selector_groups.get(text)
        if chosen is None:
            chosen = state.selector_groups[text] = SelectorGroup(subscription.selector)
            state.index.add(chosen)
            for lane in queue.lanes:
                if lane.scan is not None:
                    lane.scan.join(chosen)
        chosen.consumers += 1
        subscription.selector_group = chosen
        subscription.watched = subscription.watched or state.grouped

    def remove_consumer(self, subscription: Subscription) -> None:
        """Take a consumer out of its group; its message groups get another owner."""
        chosen, state = subscription.selector_group, subscription.queue.selective
        if chosen is None or state is None:
            return
        chosen.consumers -= 1
        chosen.unused_since_ms = self._turn.now_ms
        state.groups.remove_consumer(subscription)
        for lane in subscription.queue.lanes:
            if lane.scan is not None:
                match_cursor = lane.scan.match_cursors[chosen]
                for group in match_cursor.held.pop(subscription, ()):
                    match_cursor.recheck(group)
        state.mark_ready(chosen)
        self._store.mark_dirty(subscription.queue)

    def recheck_held(self, queue: Queue, state: SelectiveState) -> None:
        """Check again the messages that waited for credit of consumers that are on standby now."""
        for lane in queue.lanes:
            for selector_group, match_cursor in (
                lane.scan.match_cursors.items() if lane.scan is not None else ()
            ):
                for groups in match_cursor.held.values():
                    for group in groups:
                        match_cursor.recheck(group)
                match_cursor.held.clear()
                state.mark_ready(selector_group)

    def note_group(self, queue: Queue, message: Message) -> None:
        """Note that a message with a group came into `queue`."""
        if message.recorded:
            queue.last_grouped = message.position
        self.keep_groups(queue)

    def keep_groups(self, queue: Queue) -> None:
        """Deliver messages of one group to one consumer at a time from now on. Queues of bridges are
        exempt."""
        if queue.forwarded:
            return
        if queue.selective is None:
            self._begin(queue)
        state = queue.selective
        assert state is not None
        if not state.grouped:
            state.grouped = True
            for subscription in queue.consumers:
                subscription.watched = True

    def local_consumer(self, queue: Queue, message: Message) -> Subscription | None:
        """The consumer of this broker that may receive a message of another broker now."""
        state: SelectiveState = queue.selective
        ids, name = self._turn.ids, queue.group_of(message)
        group = state.groups.find(name) if name else None
        if group is not None:
            owner = group.owner
            if owner is not None and not owner.remote and _wants(owner, message, ids):
                return owner if owner.available else None
            if group.unsettled:
                return None
        groups: tuple[SelectorGroup, ...] = (state.everything, *state.index.matching(message, ids))
        available = chain.from_iterable(chosen.available for chosen in groups)
        return next((one for one in available if not one.remote), None)

    def hold_group(self, queue: Queue, message: Message, choice: object) -> bool:
        """Count a message that is delivered because the command `choice` chose it; False when a consumer owns
        its group, or holds messages of it."""
        name = queue.group_of(message)
        if not name:
            return True
        self.keep_groups(queue)
        assert queue.selective is not None
        held: bool = queue.selective.groups.hold(name, choice)
        return held

    def group_settled(self, queue: Queue, message: Message) -> None:
        """Note that a delivery was settled or returned."""
        name = queue.group_of(message)
        if name and queue.selective is not None:
            queue.selective.groups.settled(name)
            if queue.selective.groups.freed:
                self._store.mark_dirty(queue)

    def note_paged(self, queue: Queue, lane: Lane, message: Message) -> None:
        """Note that a delivered message waits again, with its body in the journal only."""
        if queue.selective is not None and lane.scan is not None:
            queue.selective.note_returned(lane.scan, message, self._turn.ids)

    def _begin(self, queue: Queue) -> None:
        state = queue.selective = SelectiveState(self._turn.limits.idle_groups)
        everything = state.everything
        for subscription in queue.consumers:
            subscription.selector_group = everything
        everything.consumers = len(queue.consumers)
        everything.unused_since_ms = self._turn.now_ms
        everything.available.take_over(queue.available)
        state.mark_ready(everything)
        self._store.mark_dirty(queue)

    def _end(self, queue: Queue) -> None:
        """Return to plain delivery, where messages in memory come before all others."""
        state = queue.selective
        assert state is not None
        for lane in queue.lanes:
            lane.scan = None
            restore_returned(lane)
            for position in lane.loading:
                lane.paged.insert(position)
            del lane.loading[:]
            kept = self._turn.limits.window  # selective delivery holds more of them in memory
            if lane.paged:
                kept = min(kept, bisect_right(lane.ready, lane.paged.first + lane.shift, key=sequence_of))
            self._store.page_out(lane, kept)
        queue.available.take_over(state.everything.available)
        for subscription in queue.consumers:
            subscription.selector_group = None
            subscription.watched = subscription.lease_ms > 0 or queue.counts
        queue.selective = None
        self._store.mark_dirty(queue)

    def drop_unused(self, queue: Queue) -> None:
        """Drop selector groups without consumers after a while, and the state when it is not needed."""
        state = queue.selective
        assert state is not None
        long_ago = self._turn.now_ms - self._turn.limits.unused_selector_ms
        for text, selector_group in list(state.selector_groups.items()):
            if text and not selector_group.consumers and selector_group.unused_since_ms <= long_ago:
                del state.selector_groups[text]
                state.index.remove(selector_group)
                state.ready_groups.pop(selector_group, None)
                state.awaiting_bodies.pop(selector_group, None)
                for lane in queue.lanes:
                    if lane.scan is not None:
                        lane.scan.leave(selector_group)
        if queue.depth or queue.unsettled:
            state.empty_since_ms = 0
        elif not state.empty_since_ms:
            state.empty_since_ms = self._turn.now_ms
        elif state.empty_since_ms <= long_ago:
            state.grouped = False
        if len(state.selector_groups) == 1 and not state.grouped:
            self._end(queue)

    def load(self, queue: Queue, state: SelectiveState, command: c.Loaded) -> None:
        """Take bodies that were read back: for delivery, or to be matched only."""
        lane = queue.lane(command.priority)
        self._store.mark_dirty(queue)
        if lane.scan is not None and lane.scan.reading == [*command.positions, *command.left]:
            lane.scan.reading = None
            for position, record in zip(command.positions, command.records, strict=True):
                if position in lane.paged:  # else it has left meanwhile
                    message = queue.reader.message(record, position)
                    message.sequence = position + lane.shift
                    message.attempts = lane.attempts_of(position)
                    state.loaded_bodies[position] = message
        else:
            self._store.read_back(queue, command)
            for selector_group in state.awaiting_bodies:
                state.mark_ready(selector_group)
            state.awaiting_bodies.clear()


def _wants(subscription: Subscription, message: Message, ids: MessageIds) -> bool:
    """Return whether the selector of a consumer, if any, accepts a message."""
    chosen = subscription.selector_group
    return chosen is None or bool(chosen.wants(message, ids))
