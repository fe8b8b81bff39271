"""Handing out where not every consumer takes every message: selectors and message groups.

A queue comes here while it has a `Sorter`, and goes back to the short way when nothing asks for one any
more. Lanes stay what they are, so all other deeds on a queue need not know of it. A consumer's messages
may stand anywhere in a backlog that is larger than memory: what is outside is read once in long
runs, looked at for all selections together and forgotten again but for the orders of what matched;
bodies are read when there is credit for them.

Messages leave out of order here, so a mark cannot say what was handed out: each first delivery that
has to be settled is recorded by itself, as one attempt (a RETURNED record, 16 bytes a message).
"""

from __future__ import annotations

from bisect import bisect_right

from broker_app.core import commands as c
from broker_app.core.dispatch import Dispatch
from broker_app.core.message import Message
from broker_app.core.queue import Lane, Queue, order_of
from broker_app.core.round import Round, take_back
from broker_app.core.selection import (
    Selection,
    Sorter,
)
from broker_app.core.subscription import Subscription


class Picking(Dispatch):
    """The other way of handing out."""

    def _dispatch_dirty(self) -> None:
        while self._dirty:
            dirty, self._dirty = self._dirty, []
            for queue in dirty:
                queue.dirty = False
                if queue.picking is None:
                    self._dispatch(queue)
                else:
                    Round(self, queue, queue.picking).run()

    # ------------------------------------------------------------------ who comes and goes

    def _join(self, subscription: Subscription) -> None:
        """A consumer of a queue begins."""
        queue = subscription.queue
        self._choose(subscription)
        queue.consumers.append(subscription)
        subscription.watched |= queue.counts
        if subscription.exclusive:
            self._choose_active(queue)

    def _leave(self, subscription: Subscription) -> None:
        """A consumer has ended."""
        subscription.queue.consumers.remove(subscription)
        if subscription.selection is not None:
            self._unchoose(subscription)
        if subscription.exclusive:
            self._choose_active(subscription.queue)

    def _choose_active(self, queue: Queue) -> None:
        """The first exclusive consumer is served, and all others stand by; without one, all are served."""
        active = next((subscription for subscription in queue.consumers if subscription.exclusive), None)
        if active is queue.active:
            return
        queue.active = active
        for subscription in queue.consumers:
            if active in (None, subscription):
                self._offer(subscription)
            else:
                self._withdraw(subscription)
        if queue.picking is not None:
            self._propose_held(queue, queue.picking)

    def _propose_held(self, queue: Queue, sorter: Sorter) -> None:
        """Whoever stands by now does not keep the groups that waited for its credit."""
        for lane in queue.lanes:
            for selection, track in lane.survey.tracks.items() if lane.survey is not None else ():
                for groups in track.held.values():
                    for group in groups:
                        track.propose(group)
                track.held.clear()
                sorter.wake(selection)

    def _choose(self, subscription: Subscription) -> None:
        """Find the selection of a new consumer. What waits for a named subscription was selected before."""
        queue = subscription.queue
        text = subscription.selector.text if subscription.selector and queue.named is None else ""
        if text and queue.picking is None:
            self._begin_picking(queue)
        sorter = queue.picking
        if sorter is None:
            return
        chosen = sorter.selections.get(text)
        if chosen is None:
            chosen = sorter.selections[text] = Selection(subscription.selector)
            sorter.index.add(chosen)
            for lane in queue.lanes:
                if lane.survey is not None:
                    lane.survey.join(chosen)
        chosen.consumers += 1
        subscription.selection = chosen
        subscription.watched = subscription.watched or sorter.grouped

    def _unchoose(self, subscription: Subscription) -> None:
        chosen, sorter = subscription.selection, subscription.queue.picking
        if chosen is None or sorter is None:
            return
        chosen.consumers -= 1
        chosen.unused_since_ms = self.now_ms
        sorter.groups.leave(subscription)
        for lane in subscription.queue.lanes:
            if lane.survey is not None:
                track = lane.survey.tracks[chosen]
                for group in track.held.pop(subscription, ()):
                    track.propose(group)
        sorter.wake(chosen)
        self._touch(subscription.queue)

    def _note_group(self, queue: Queue, message: Message) -> None:
        """A message that has a group came into `queue`."""
        if message.recorded:
            queue.last_grouped = message.position
        self.keep_groups(queue)

    def keep_groups(self, queue: Queue) -> None:
        """From now on messages of one group go to one consumer at a time; in the broker that they are for."""
        if queue.forwarded:
            return
        if queue.picking is None:
            self._begin_picking(queue)
        sorter = queue.picking
        assert sorter is not None
        if not sorter.grouped:
            sorter.grouped = True
            for subscription in queue.consumers:
                subscription.watched = True

    def _group_settled(self, queue: Queue, message: Message) -> None:
        """A delivery was acknowledged or has come back."""
        name = queue.group_of(message)
        if name and queue.picking is not None:
            queue.picking.groups.settled(name)
            if queue.picking.groups.freed:
                self._touch(queue)

    def _begin_picking(self, queue: Queue) -> None:
        sorter = queue.picking = Sorter(self.limits.idle_groups)
        everything = sorter.everything
        for subscription in queue.consumers:
            subscription.selection = everything
        everything.consumers = len(queue.consumers)
        everything.unused_since_ms = self.now_ms
        everything.line.extend(queue.available)
        queue.available.clear()
        sorter.wake(everything)
        self._touch(queue)

    def _end_picking(self, queue: Queue) -> None:
        """Back to the short way: what is in memory must come before all that is not."""
        sorter = queue.picking
        assert sorter is not None
        for lane in queue.lanes:
            lane.survey = None
            take_back(lane)
            for position in lane.loading:
                lane.paged.insert(position)
            del lane.loading[:]
            if lane.paged:
                self._page_out(lane, bisect_right(lane.ready, lane.paged.first + lane.shift, key=order_of))
        queue.available.extend(sorter.everything.line)
        for subscription in queue.consumers:
            subscription.selection = None
            subscription.watched = subscription.lease_ms > 0 or queue.counts
        queue.picking = None
        self._touch(queue)

    def _tidy_picking(self, queue: Queue) -> None:
        """Forget selections that nobody has used for a while, and the sorter when it is not needed."""
        sorter = queue.picking
        assert sorter is not None
        long_ago = self.now_ms - self.limits.unused_selector_ms
        for text, selection in list(sorter.selections.items()):
            if text and not selection.consumers and selection.unused_since_ms <= long_ago:
                del sorter.selections[text]
                sorter.index.remove(selection)
                sorter.awake.pop(selection, None)
                sorter.awaiting.pop(selection, None)
                for lane in queue.lanes:
                    if lane.survey is not None:
                        lane.survey.leave(selection)
        if queue.depth or queue.unsettled:
            sorter.empty_since_ms = 0
        elif not sorter.empty_since_ms:
            sorter.empty_since_ms = self.now_ms
        elif sorter.empty_since_ms <= long_ago:
            sorter.grouped = False
        if len(sorter.selections) == 1 and not sorter.grouped:
            self._end_picking(queue)

    # ------------------------------------------------------------------ between memory and journal

    @staticmethod
    def _belongs_outside(queue: Queue, lane: Lane, message: Message) -> bool:
        """Whether a message that was picked out of order comes back to a queue that does so no more, where
        what stands before it is not in memory."""
        if (
            queue.picking is not None
            or not message.recorded
            or message.order - message.position != lane.shift
        ):
            return False
        first = lane.loading[0] if lane.loading else lane.paged.first
        return 0 < first < message.position

    def _loaded(self, command: c.Loaded) -> None:
        queue = self.queues.get(command.address)
        if queue is None:
            return
        if queue.picking is None:
            super()._loaded(command)
            return
        lane = queue.lane(command.priority)
        self._touch(queue)
        if lane.survey is not None and lane.survey.reading == list(command.positions):
            lane.survey.reading = None
            for position, record in zip(command.positions, command.records, strict=True):
                if position in lane.paged:  # else it was taken meanwhile
                    message = queue.reader.message(record, position)
                    message.order = position + lane.shift
                    message.attempts = lane.attempts_of(position)
                    queue.picking.at_hand[position] = message
        else:
            super()._loaded(command)
            for selection in queue.picking.awaiting:
                queue.picking.wake(selection)
            queue.picking.awaiting.clear()

    def _page_out(self, lane: Lane, keep: int) -> None:
        """Forget bodies that are in the journal: of all but the first `keep` messages of `lane.ready`."""
        ready = lane.ready
        while len(ready) > keep:
            message = ready[-1]
            if not message.recorded or message.order - message.position != lane.shift:
                return  # its place among those outside could not be told from its position
            ready.pop()
            self.memory_bytes -= message.size
            lane.paged.insert(message.position)
            if message.attempts != lane.attempts_of(message.position):
                lane.attempts[message.position] = message.attempts
