"""Whether and when a message comes in: limits of destinations and of the broker, and what happens at them.

What finds no room waits in line (FLOW_CONTROL) until there is some or its time is over; its producer gets
no answer and, when much of its waits, is read no further. A line is in the order of arrival, and what comes
later stands behind it, so that the order of each producer is kept.
"""

from __future__ import annotations

from bisect import bisect
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Any

from broker_app.core import commands as c
from broker_app.core import records
from broker_app.core.errors import Refused
from broker_app.core.facts import DestinationFull
from broker_app.core.guard import Guard, Parked
from broker_app.core.message import OVERHEAD_BYTES, Envelope, Message
from broker_app.core.peer import Peer
from broker_app.core.policy import REJECT_NEWEST, REMOVE_LOW_PRIORITY, DestinationPolicy
from broker_app.core.publishing import Publishing
from broker_app.core.queue import Lane, Queue
from broker_app.core.settling import has_dead_letters
from broker_app.core.strain import (
    BROKER_FULL,
    GREEN,
    MEMORY_ORANGE,
    MEMORY_RED,
    ORANGE,
    RED,
    SPARED,
    STORE_FULL,
    memory_level,
)
from broker_app.core.subscription import Subscription

MAX_GUARDED_TOPICS = 10_000
#: a queue that had room for so long is told of when it is full again
FULL_AGAIN_MS = 10_000
_BY_ARRIVAL = attrgetter("arrival")


class Admitting(Publishing):
    """Messages on their way in, at the gate."""

    def _publish(self, command: c.Publish) -> None:
        if self.strain is not None or self._line:
            self._publish_under_strain(command)
            return
        peer = command.peer
        last: Envelope | None = None
        queue: Queue | None = None
        plain = open_topic = False
        enqueue, to_topic, accept = self._enqueue, self._publish_to_topic, self._accept
        entries = iter(command.entries)
        for envelope, body, receipt in entries:
            if envelope is not last:
                try:
                    queue = self._target(envelope)
                except Exception as error:
                    self._not_published(peer, receipt, error)
                    self._pass_over(peer, entries)
                    continue
                last = envelope
                usual = envelope.special is None
                plain = usual and queue is not None and queue.durable and queue.guarded is None
                open_topic = usual and queue is None and not self._limits_topics
            message: Message | None
            if plain:
                message = enqueue(queue, envelope, body)  # type: ignore[arg-type]  # `plain` says that it is one
            elif open_topic:
                message = to_topic(envelope, body)
            else:
                message = self._admit(peer, queue, envelope, body, receipt)
                if message is None:
                    self._pass_over(peer, entries)
                    continue
            if receipt is not None:
                accept(peer, receipt, message)
        self.counters["published"] += len(command.entries)

    def _not_published(self, peer: Peer, receipt: Any, error: Exception) -> None:
        """Refuse one message of a run that is counted as published at its end."""
        self.counters["published"] -= 1
        self._refuse(peer, receipt, error)

    def _pass_over(self, peer: Peer, entries: Iterator[c.Entry]) -> None:
        """Leave the rest of a run that is counted as published where a refusal has stopped its peer."""
        if peer.stopped:
            self.counters["published"] -= sum(1 for _ in entries)

    def _stop(self, peer: Peer) -> None:
        super()._stop(peer)
        if peer in self.parking.by_peer:
            self._abandon(peer)

    def _admit(
        self,
        peer: Peer,
        queue: Queue | None,
        envelope: Envelope,
        body: bytes,
        receipt: Any,
        waited: Parked | None = None,
    ) -> Message | None:
        """Let one message in when its destination has room; None when it waits (still, where it has
        `waited`) or was refused."""
        address, size = envelope.address, len(body)
        guard = self._guard_of_topic(address) if queue is None else queue.guarded
        if guard is not None and queue is not self._NOWHERE:
            try:
                self._check_admissible(peer, guard, address, size)
            except Exception as error:
                self._not_published(peer, receipt, error)
                return None
        full = self._full_copy(address, size, waited) if queue is None else queue
        if queue is not None and not self.is_full(queue, size, waited):
            full = None
        if full is None:
            return self._take_in(queue, envelope, body)
        self._tell_once(full)
        if full.policy.limit_behavior != REJECT_NEWEST:
            self.counters["published"] -= 1
            assert full.guarded is not None
            parked = waited or self._arrived(peer, envelope, body, receipt)
            self._park(full.guarded.line, parked, _full(full))
            self._crowded[full] = None
            return None
        self.counters["refused"] += 1
        if envelope.persistent:
            self._not_published(peer, receipt, _full(full))
            return None
        full.discarded_total += 1
        return self._discarded(envelope, body)

    def is_full(self, queue: Queue, size: int = 0, waited: Parked | None = None) -> bool:
        """Whether a message of `size` bytes finds no room in a queue, and nothing makes room for it. Who
        stands in its line comes before it, save those who arrived after it has `waited` elsewhere."""
        guard = queue.guarded
        if guard is None or queue is self._NOWHERE:
            return False
        line = guard.line
        if line and (waited is None or line[0].arrival < waited.arrival):
            return True
        return not (guard.removes or self._fits(queue, guard, 1, size))

    def _full_copy(self, address: str, size: int, waited: Parked | None) -> Queue | None:
        """A durable subscription to a topic that has no room for its copy, if there is one."""
        # Lines outlast the limits for which they formed until all of them are let in.
        if not (self._limits_topics or self._crowded) or not address.startswith("/topic/"):
            return None
        named = self.topics.match(address.removeprefix("/topic/")).named
        return next((kept.queue for kept in named if self.is_full(kept.queue, size, waited)), None)

    def _tell_once(self, queue: Queue) -> None:
        """Say that a queue is full, when it has not been said since there was room for a while."""
        if queue not in self._full and queue.policy.guards:
            self._tell_of_destination(DestinationFull(queue.address, _full(queue).detail))
        self._full[queue] = self.now_ms

    def _check_admissible(self, peer: Peer, guard: Guard, address: str, size: int) -> None:
        """Refused when a message of this producer can never come in."""
        policy = guard.policy
        most = policy.max_message_bytes or policy.max_bytes
        if policy.max_bytes:
            most = min(most, policy.max_bytes)
        if 0 < most < size:
            raise Refused("too-large", f"the body has {size} bytes; {address} takes at most {most}")
        if not guard.admits(peer, self.now_ms):
            raise Refused(
                "too-many", f"{address} has {policy.max_producers} producers, as many as it may have"
            )

    def _guard_of_topic(self, address: str) -> Guard | None:
        """The limits of a topic, None when it has none."""
        guard = self._topic_guards.get(address)
        if guard is None and self._limits_topics:
            policy = self.policies.of(address)
            if policy.guards:
                if len(self._topic_guards) >= MAX_GUARDED_TOPICS:
                    self._topic_guards.clear()
                guard = self._topic_guards[address] = Guard(policy)
        return guard

    def _fits(self, queue: Queue | None, guard: Guard, messages: int, bytes_: int) -> bool:
        """Whether so many more messages, of so many bytes together, are within the limits. What is scheduled
        counts as if it were there."""
        if queue is None:
            return guard.holds(messages, bytes_)
        there = queue.depth + queue.unsettled
        if not there and guard.bytes:
            guard.recount(0, 0, 0)  # guesses end where nothing is left to guess
        schedule = self.schedules.get(queue.address)
        if schedule is not None:
            messages += len(schedule)
            bytes_ += len(schedule) * schedule.average
        return guard.holds(there + messages, guard.estimated_bytes + bytes_)

    # ------------------------------------------------------------------ in line

    def _arrived(self, peer: Peer, envelope: Envelope, body: bytes, receipt: Any) -> Parked:
        self._arrivals += 1
        until_ms = self.now_ms + (peer.patience_ms or self.limits.patience_ms)
        return Parked(peer, envelope, body, receipt, self._arrivals, until_ms)

    def _park(self, line: deque[Parked], parked: Parked, why: Refused) -> None:
        """Let a message wait in `line` for room, or refuse it where too much waits already."""
        if self.parking.takes(parked):
            if line and line[-1].arrival > parked.arrival:  # it waited in another line before
                line.insert(bisect(line, parked.arrival, key=_BY_ARRIVAL), parked)
            else:
                line.append(parked)
        else:
            self.counters["refused"] += 1
            self._refuse(parked.peer, parked.receipt, why)

    def _ease(self) -> None:
        """Let in what has room by now and take out what is too much, until nothing moves any more."""
        moved = True
        while moved:
            moved = self._let_in_from_the_gate()
            for queue in list(self._crowded):
                moved |= self._let_in(queue)
            overfull, self._overfull = self._overfull, {}
            for queue in overfull:
                moved |= self._trim(queue)
            self._dispatch_dirty()

    def _let_in(self, queue: Queue) -> bool:
        """Let in from the front of a queue's line; returns whether there was any room."""
        guard, moved = queue.guarded, False
        if guard is None:
            del self._crowded[queue]
            return False
        line = guard.line
        while line and (queue.gone or guard.removes or self._fits(queue, guard, 1, len(line[0].body))):
            moved = True
            self._let_through(line.popleft())
        if not line:
            del self._crowded[queue]
            if not queue.policy.guards:
                queue.guarded = None
                self._watch_consumers(queue)
        return moved

    def _let_through(self, parked: Parked) -> None:
        """Publish what has waited; to its destination as it is now."""
        self.parking.leaves(parked)
        self.counters["published"] += 1
        envelope, peer = parked.envelope, parked.peer
        try:
            queue = self._target(envelope)
        except Exception as error:
            self._not_published(peer, parked.receipt, error)
        else:
            if queue is None:  # other durable subscriptions to the topic may be full as well
                message = self._admit(peer, queue, envelope, parked.body, parked.receipt, parked)
            else:
                message = self._take_in(queue, envelope, parked.body)
            if message is not None:
                self._accept(peer, parked.receipt, message)
        self._farewell(peer)

    def _give_up_waiting(self) -> None:
        """Refuse what waited for as long as it may."""
        self._full = {
            queue: seen_ms for queue, seen_ms in self._full.items() if self.now_ms - seen_ms < FULL_AGAIN_MS
        }
        for queue in list(self._crowded):
            if queue.guarded is not None:
                self._refuse_overdue(queue.guarded.line, _full(queue))
        if self._line:
            self._refuse_overdue(self._line, self.strain.refusal if self.strain else _late())

    def _refuse_overdue(self, line: deque[Parked], refusal: Refused) -> None:
        overdue = [parked for parked in line if parked.until_ms <= self.now_ms]
        if not overdue:
            return
        waiting = [parked for parked in line if parked.until_ms > self.now_ms]
        line.clear()
        line.extend(waiting)
        for parked in overdue:
            self.parking.leaves(parked)
            self.counters["refused"] += 1
            self._refuse(parked.peer, parked.receipt, refusal)
            self._farewell(parked.peer)

    def _disconnect(self, command: c.Disconnect) -> None:
        """What a session sent before it took its leave still comes in, and its leave is answered after that;
        what waits of a session that broke off is as if it had never come."""
        peer = command.peer
        if peer.stopped and not peer.gone:
            self._stopped -= 1
        if peer in self.parking.by_peer:
            if command.receipt is None or command.abandon:
                self._abandon(peer)
            else:
                self._farewells[peer] = command.receipt
                command = replace(command, receipt=None)
        peer.gone = True
        super()._disconnect(command)
        self.parking.look_again(peer)

    def _subscribe(self, command: c.Subscribe) -> None:
        super()._subscribe(command)
        self.parking.look_again(command.peer)

    def _end_subscription(self, subscription: Subscription, *, keep_unsettled: bool) -> None:
        super()._end_subscription(subscription, keep_unsettled=keep_unsettled)
        self.parking.look_again(subscription.peer)

    def _farewell(self, peer: Peer) -> None:
        """Answer the leave of a peer when nothing of it waits any more."""
        if peer in self._farewells and peer not in self.parking.by_peer:
            self._accept(peer, self._farewells.pop(peer))

    def _abandon(self, peer: Peer) -> None:
        for line in [self._line, *(queue.guarded.line for queue in self._crowded if queue.guarded)]:
            mine = [parked for parked in line if parked.peer is peer]
            if mine:
                others = [parked for parked in line if parked.peer is not peer]
                line.clear()
                line.extend(others)
                for parked in mine:
                    self.parking.leaves(parked)
                self.counters["discarded"] += len(mine)

    # ------------------------------------------------------------------ the broker as a whole

    def _gauge(self) -> None:
        """See whether all messages together leave room for more."""
        level = self.memory_level = memory_level(
            self.memory_bytes - self.limits.memory_bytes, self.limits.transient_bytes
        )
        if self.store_room is not None and self.store_room <= 0:
            self.strain = STORE_FULL
        elif level is RED:
            self.strain = MEMORY_RED
        elif level is ORANGE:
            self.strain = MEMORY_ORANGE
        else:
            self.strain = BROKER_FULL if self._total_is_reached() else None
        limits = self.limits
        counting = limits.max_messages > 0 or limits.max_bytes > 0
        self._gauging = counting or self.store_room is not None or level is not GREEN

    def _total_is_reached(self) -> bool:
        limits = self.limits
        if not (limits.max_messages or limits.max_bytes):
            return False
        published = self.counters["published"]
        if published >= self._count_again_at:
            self._count_again_at = published + self._total_room()
        return published >= self._count_again_at

    def _total_room(self) -> int:
        """How many messages may come before all have to be counted again; 0 when none may."""
        limits = self.limits
        messages = sum(queue.depth + queue.unsettled for queue in self.queues.values())
        rooms = [limits.max_messages - messages] if limits.max_messages else []
        if limits.max_bytes:
            bytes_ = self.memory_bytes + sum(queue.paged_bytes for queue in self.queues.values())
            average = max(OVERHEAD_BYTES, bytes_ // max(1, messages))
            rooms.append((limits.max_bytes - bytes_) // average)
        return max(0, min(rooms))

    def _store_space(self, command: c.StoreSpace) -> None:
        self.store_room = command.room
        self._gauge()

    def _publish_under_strain(self, command: c.Publish) -> None:
        """Publish while the broker takes nothing, or while what came before still waits at its gate."""
        peer, strain = command.peer, self.strain
        self.counters["published"] += len(command.entries)
        entries = iter(command.entries)
        for envelope, body, receipt in entries:
            if envelope.address.startswith(strain.spares if strain else SPARED):
                self._publish_one(self._arrived(peer, envelope, body, receipt))
            elif strain is None or strain.waits:
                self.counters["published"] -= 1
                parked = self._arrived(peer, envelope, body, receipt)
                self._park(self._line, parked, strain.refusal if strain else _late())
            else:
                self.counters["refused"] += 1
                self._not_published(peer, receipt, strain.refusal)
            self._pass_over(peer, entries)

    def _publish_one(self, entry: Parked) -> None:
        """Publish a message that is counted as published already."""
        peer = entry.peer
        try:
            queue = self._target(entry.envelope)
        except Exception as error:
            self._not_published(peer, entry.receipt, error)
            return
        message = self._admit(peer, queue, entry.envelope, entry.body, entry.receipt, entry)
        if message is not None:
            self._accept(peer, entry.receipt, message)

    def _let_in_from_the_gate(self) -> bool:
        """Let in what the broker as a whole had no room for."""
        moved = False
        while self._line:
            self._gauge()
            if self.strain is not None:
                break
            moved = True
            parked = self._line.popleft()
            self.parking.leaves(parked)
            if self.store_room is not None:
                self.store_room -= parked.size
            self.counters["published"] += 1
            self._publish_one(parked)
            self._farewell(parked.peer)
        return moved

    def _check_all_fit(self, peer: Peer, entries: Sequence[c.Entry]) -> None:
        """Refused unless all of these messages, of one transaction, can come in at once."""
        strain = self.strain
        wanted: dict[str, tuple[int, int]] = {}
        for envelope, body, _ in entries:
            address = envelope.address
            if (strain or self._line) and not address.startswith(strain.spares if strain else SPARED):
                raise strain.refusal if strain else _late()
            guard = self._guard_of(address)
            if guard is not None:
                self._check_admissible(peer, guard, address, len(body))
            for full, queue, limits in self._limited(address, guard):
                messages, bytes_ = wanted.get(full, (0, 0))
                wanted[full] = messages, bytes_ = messages + 1, bytes_ + len(body)
                if not limits.removes and (limits.line or not self._fits(queue, limits, messages, bytes_)):
                    raise Refused("queue-full", f"{full} has no room for all messages of the transaction")

    def _guard_of(self, address: str) -> Guard | None:
        """The limits of a destination, which need not exist yet; None when it has none."""
        if address.startswith("/topic/"):
            return self._guard_of_topic(address)
        queue = self.queues.get(address)
        if queue is not None:
            return queue.guarded
        policy = self.policies.of(address)
        return Guard(policy) if policy.guards else None

    def _limited(self, address: str, guard: Guard | None) -> Iterator[tuple[str, Queue | None, Guard]]:
        """(address, queue if there is one, limits) of all that may be too full for a message to `address`: a
        queue with this `guard`, or durable subscriptions to a topic."""
        if not address.startswith("/topic/"):
            if guard is not None:
                yield address, self.queues.get(address), guard
        elif self._limits_topics:
            for named in self.topics.match(address.removeprefix("/topic/")).named:
                if named.queue.guarded is not None:
                    yield named.queue.address, named.queue, named.queue.guarded

    # ------------------------------------------------------------------ new limits

    def _reguard(self, queue: Queue, policy: DestinationPolicy) -> None:
        """Have a queue obey another policy while messages are in it."""
        weighed = queue.guarded is not None and queue.policy.max_bytes > 0
        queue.obey(policy)
        guard = queue.guarded
        if guard is not None and not policy.guards and not guard.line:
            queue.guarded = None
        elif not weighed:
            self._recount(queue)
        self._watch_consumers(queue)
        if queue.guarded is not None and queue.guarded.removes:
            self._overfull[queue] = None
        if queue in self._crowded:
            self._let_in(queue)  # before anything that comes behind it

    def _watch_consumers(self, queue: Queue) -> None:
        """Look closer at what they settle where bytes or groups are counted."""
        counted = queue.counts or (queue.picking is not None and queue.picking.grouped)
        for subscription in queue.consumers:
            subscription.watched = subscription.lease_ms > 0 or counted

    def _recount(self, queue: Queue) -> None:
        """Weigh what is in memory of a queue, and count what is not."""
        guard = queue.guarded
        if guard is None:
            return
        known = sum(len(message.body) for lane in queue.lanes for message in lane.in_memory())
        for peer in self.peers if queue.unsettled else ():
            for subscription, message in peer.unsettled.values():
                if subscription.queue is queue:
                    known += len(message.body)
        unread = sum(len(lane.paged) + len(lane.loading) for lane in queue.lanes)
        guard.recount(known, unread, self._out.first_position + self._out.count)

    def _check_room(self, queue: Queue, messages: int, bytes_: int) -> None:
        """Refused when so much more does not fit into a queue now."""
        guard = queue.guarded
        if guard is None or guard.removes:
            return
        if guard.line or not self._fits(queue, guard, messages, bytes_):
            raise _full(queue)

    # ------------------------------------------------------------------ too much

    def _trim(self, queue: Queue) -> bool:
        """Take waiting messages out of a queue that removes some at its limits; whether any went."""
        guard, moved = queue.guarded, False
        if guard is None or queue.gone or not guard.removes:
            return False
        while not self._fits(queue, guard, 0, 0):
            lane = _victims(queue)
            if lane is None:
                break  # all of it is unsettled
            if not self._remove_first(queue, guard, lane):
                self._overfull[queue] = None  # when its body is here
                break
            moved = True
        return moved

    def _remove_first(self, queue: Queue, guard: Guard, lane: Lane) -> bool:
        """Remove the oldest message of a lane; False when its body has to be read back before."""
        low = guard.policy.limit_behavior == REMOVE_LOW_PRIORITY
        message = lane.pop_first()
        if message is not None:
            self._remember_body(queue, -message.size)
            self._dead_letter(queue, message, "LOW_PRIORITY" if low else "OLDEST", _full(queue).detail)
            return True
        if guard.policy.max_bytes or (queue.policy.use_dead_letters and has_dead_letters(queue)):
            self._fetch(queue, lane)
            return False
        position = lane.loading.pop(0) if lane.loading else lane.paged.take(1)[0]
        lane.attempts.pop(position, None)
        queue.dead_total += 1
        self.counters["discarded"] += 1
        out = self._out
        out.record(records.acked(out.destination(queue.address), records.DISCARDED, (position,)))
        out.freed.append(position)
        return True


def _full(queue: Queue) -> Refused:
    policy = queue.policy
    limits = [f"{policy.max_messages} messages"] if policy.max_messages else []
    limits += [f"{policy.max_bytes} bytes"] if policy.max_bytes else []
    return Refused("queue-full", f"{queue.address} is full: it holds at most {' and '.join(limits)}")


def _late() -> Refused:
    return Refused("queue-full", "the broker was full, and others wait in line before this message")


def _victims(queue: Queue) -> Lane | None:
    """The lane whose first message is removed next: the oldest one's, or that of the lowest priority."""
    lanes = [lane for lane in reversed(queue.lanes) if len(lane)]
    if not lanes or queue.policy.limit_behavior == REMOVE_LOW_PRIORITY:
        return lanes[0] if lanes else None
    return min(lanes, key=_age)


def _age(lane: Lane) -> int:
    first = lane.first()
    return first.time_ms if first else 0  # what is not in memory waits longest
