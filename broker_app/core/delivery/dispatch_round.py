"""One round of delivery for a queue with selective delivery.

New and returned messages are matched, message groups that became free are offered, selector groups with
credit are served, and the bodies that they need are requested."""

from __future__ import annotations

from heapq import heappop
from itertools import islice

from broker_app.core import commands as c
from broker_app.core.durability import records
from broker_app.core.message import Message
from broker_app.core.model import Queue, Subscription
from broker_app.core.selective.body_requests import BodyRequests, cursor_of, is_starved
from broker_app.core.selective.index import SelectorGroup
from broker_app.core.selective.state import (
    MAX_PASSED_OVER,
    LaneScan,
    MatchCursor,
    ScanCursor,
    SelectiveState,
    beyond,
    end_of,
    index_in_memory,
    is_paged_out,
    restore_returned,
)
from broker_app.core.storage.dead_letters import DeadLetters
from broker_app.core.storage.lane import Lane
from broker_app.core.storage.message_store import MessageStore
from broker_app.core.timers import Leases
from broker_app.core.turn import Turn


class DispatchRound:
    """One round of delivery for one queue."""

    def __init__(
        self,
        turn: Turn,
        store: MessageStore,
        dead_letters: DeadLetters,
        leases: Leases,
        queue: Queue,
        state: SelectiveState,
    ) -> None:
        self._turn = turn
        self._store = store
        self._dead_letters = dead_letters
        self._leases = leases
        self._queue = queue
        self._state = state
        self._requests = BodyRequests(turn, store, queue, state)
        #: deliveries to be recorded as attempts, and their consumers
        self._begun: list[tuple[int, int]] = []
        self._begun_by: list[str] = []
        self._delivered = self._redelivered = self._settled = 0
        #: how much may still be matched in this round
        self._left = turn.limits.scan_batch

    def run(self) -> None:
        """Deliver what can be delivered, and request bodies."""
        state, queue = self._state, self._queue
        for lane in queue.lanes:
            self._scan_lane(lane)
        self._free_groups()
        self._skip_empty_lanes()
        while state.ready_groups:
            ready_groups, state.ready_groups = state.ready_groups, {}
            for selector_group in sorted(ready_groups, key=_rank) if len(ready_groups) > 1 else ready_groups:
                self._serve(selector_group)
            self._free_groups()
            self._skip_empty_lanes()
        for lane in queue.lanes:
            self._requests.read(lane)
        state.loaded_bodies.clear()
        self._account()

    # ------------------------------------------------------------------ matching

    def _scan_lane(self, lane: Lane) -> None:
        """Match returned and new messages, and continue for groups that have credit and no matches."""
        state, scan = self._state, lane.scan
        if scan is None:
            scan = lane.scan = LaneScan()
            for selector_group in state.selector_groups.values():
                scan.join(selector_group)
                state.mark_ready(selector_group)
        for message in restore_returned(lane):
            state.note_returned(scan, message, self._turn.ids)
        if scan.match_cursors[state.everything].cursor < end_of(lane):
            state.mark_ready(state.everything)
        last = max(scan.scan_cursors, key=cursor_of, default=None)
        if last is not None and last.cursor < end_of(lane):
            for scan_cursor in scan.scan_cursors:
                if scan_cursor is last or is_starved(lane, scan_cursor):
                    scan.starved[scan_cursor] = None
        for scan_cursor in sorted(scan.starved, key=cursor_of):
            if scan_cursor in scan.starved:
                self._advance(lane, scan, scan_cursor)

    def _advance(self, lane: Lane, scan: LaneScan, scan_cursor: ScanCursor) -> None:
        """Match the messages behind a scan cursor, as far as their bodies are in memory."""
        state, ids, limits = self._state, self._turn.ids, self._turn.limits
        index = state.index
        ahead = min(
            (f for f in scan.scan_cursors if f.cursor > scan_cursor.cursor), key=cursor_of, default=None
        )
        for sequence, message in beyond(lane, scan_cursor.cursor, state.loaded_bodies):
            if ahead is not None and sequence > ahead.cursor:
                break
            if message is None or self._left <= 0 or not scan_cursor.match_cursors:
                return
            before = index.spent
            scan_cursor.cursor = sequence
            if (
                len(scan_cursor.match_cursors) == 1 and len(state.selector_groups) > 2
            ):  # without the index of all others
                (match_cursor,) = scan_cursor.match_cursors
                index.spent += match_cursor.selector_group.condition.cost(message)
                wanted = match_cursor.selector_group.wants(message, ids)
                matching: tuple[SelectorGroup, ...] = (match_cursor.selector_group,) if wanted else ()
            else:
                matching = index.matching(message, ids)
            self._left -= max(1, index.spent - before)
            for selector_group in matching:
                match_cursor = scan.match_cursors[selector_group]
                if match_cursor.scan_cursor is scan_cursor:
                    scan.found(match_cursor, sequence, limits.known_matches)
                    state.mark_ready(selector_group)
        if ahead is not None and scan_cursor.match_cursors:
            scan.merge(scan_cursor, ahead)

    def _skip_empty_lanes(self) -> None:
        """Serve groups from the next lane that waited for matches of one that is empty now."""
        for lane in self._queue.lanes:
            scan = lane.scan
            if scan is None or not scan.waiting:
                continue
            end = end_of(lane)
            for selector_group in [s for s in scan.waiting if scan.match_cursors[s].matched_up_to >= end]:
                del scan.waiting[selector_group]
                self._state.mark_ready(selector_group)

    # ------------------------------------------------------------------ delivery

    def _serve(self, selector_group: SelectorGroup) -> None:
        """Deliver to the consumers of one selector group, highest priority first."""
        for lane in self._queue.lanes:
            if not selector_group.available:
                return
            assert lane.scan is not None
            if self._serve_from(selector_group, lane, lane.scan, lane.scan.match_cursors[selector_group]):
                return

    def _serve_from(
        self, selector_group: SelectorGroup, lane: Lane, scan: LaneScan, match_cursor: MatchCursor
    ) -> bool:
        """Deliver the matches of a lane; returns whether more may follow that are not read yet."""
        self._recheck(selector_group, match_cursor)
        unread = False
        while selector_group.available:
            candidate = self._candidate(match_cursor)
            sequence = self._first_match(lane, match_cursor)
            if candidate is not None and (not sequence or candidate[0] < sequence):
                sequence, group = candidate
                message = self._message(lane, sequence)
                if message is None and is_paged_out(lane, sequence - lane.shift):
                    self._requests.request(selector_group, lane, match_cursor.passed[group])
                    match_cursor.unread.add(group)
                    unread = True
                else:
                    self._deliver_passed(selector_group, lane, match_cursor, sequence, group, message)
                continue
            if not sequence:
                break
            message = self._message(lane, sequence)
            if message is not None:
                self._deliver_match(selector_group, lane, match_cursor, sequence, message)
            elif is_paged_out(lane, sequence - lane.shift):
                self._requests.request(selector_group, lane, match_cursor.matches)
                return True
            else:
                match_cursor.matches.discard(sequence)
        if not selector_group.available:
            return False
        if match_cursor.scan_cursor is not None and match_cursor.scan_cursor.cursor < end_of(lane):
            scan.starved[match_cursor.scan_cursor] = None
            scan.waiting[selector_group] = None
            return True
        return unread

    def _recheck(self, selector_group: SelectorGroup, match_cursor: MatchCursor) -> None:
        """Check again the messages passed over whose bodies were read, or whose consumer has credit."""
        for group in match_cursor.unread:
            match_cursor.recheck(group)
        match_cursor.unread.clear()
        if match_cursor.held:
            for subscription in [s for s in match_cursor.held if s.available]:
                for group in match_cursor.held.pop(subscription):
                    match_cursor.recheck(group)

    def _candidate(self, match_cursor: MatchCursor) -> tuple[int, str] | None:
        """(sequence, message group) of the first message passed over that may be deliverable."""
        while match_cursor.candidates:
            sequence, group = match_cursor.candidates[0]
            sequences = match_cursor.passed.get(group)
            if sequences and sequences.first == sequence and group not in match_cursor.unread:
                return sequence, group
            heappop(match_cursor.candidates)
        return None

    def _first_match(self, lane: Lane, match_cursor: MatchCursor) -> int:
        """The sequence of the first match, 0 when none is known."""
        if (
            match_cursor.scan_cursor is None
            and not match_cursor.matches
            and match_cursor.cursor < end_of(lane)
        ):
            for sequence, _ in islice(beyond(lane, match_cursor.cursor, {}), self._turn.limits.known_matches):
                match_cursor.matches.append(sequence)
                match_cursor.cursor = sequence
        if match_cursor.passed_total > MAX_PASSED_OVER:
            return 0
        return match_cursor.matches.first

    def _message(self, lane: Lane, sequence: int) -> Message | None:
        """The message with this sequence if it waits and its body is in memory."""
        at = index_in_memory(lane, sequence)
        if at is not None:
            return lane.ready[at]
        position = sequence - lane.shift
        message = self._state.loaded_bodies.get(position)
        return message if message is not None and position in lane.paged else None

    def _deliver_match(
        self,
        selector_group: SelectorGroup,
        lane: Lane,
        match_cursor: MatchCursor,
        sequence: int,
        message: Message,
    ) -> None:
        group = self._queue.group_of(message)
        if not group:
            match_cursor.matches.discard(sequence)
            assert selector_group.available.first is not None
            self._deliver(lane, selector_group.available.first, message)
            return
        subscription = (
            None if group in match_cursor.passed else self._consumer(selector_group, group, message)
        )
        if subscription is None:
            match_cursor.pass_over(group, sequence)
            self._hold(selector_group, match_cursor, group, message)
        else:
            match_cursor.matches.discard(sequence)
            self._deliver(lane, subscription, message)

    def _deliver_passed(
        self,
        selector_group: SelectorGroup,
        lane: Lane,
        match_cursor: MatchCursor,
        sequence: int,
        group: str,
        message: Message | None,
    ) -> None:
        subscription = None if message is None else self._consumer(selector_group, group, message)
        if message is not None and subscription is None:
            heappop(match_cursor.candidates)
            self._hold(selector_group, match_cursor, group, message)
            return
        match_cursor.take_passed(group, sequence)
        match_cursor.recheck(group)
        if message is not None and subscription is not None:
            self._deliver(lane, subscription, message)

    def _consumer(self, selector_group: SelectorGroup, name: str, message: Message) -> Subscription | None:
        """The consumer of the selector group that may receive a message of a message group now."""
        group = self._state.groups.find(name)
        if group is None:
            return selector_group.available.first
        owner = group.owner
        if owner is None:
            return None
        if self._queue.active not in (None, owner):
            return None if group.unsettled else selector_group.available.first
        if owner.selector_group is selector_group:
            return owner if owner.available else None
        if (
            group.unsettled
            or owner.selector_group is None
            or owner.selector_group.wants(message, self._turn.ids)
        ):
            return None
        return selector_group.available.first  # its owner does not match it

    def _hold(
        self, selector_group: SelectorGroup, match_cursor: MatchCursor, name: str, message: Message
    ) -> None:
        """Note which consumer a message passed over waits for; check it again at once if its group is
        free."""
        group = self._state.groups.find(name)
        owner = group.owner if group is not None else None
        if owner is not None and owner.selector_group is selector_group and not owner.available:
            match_cursor.held.setdefault(owner, set()).add(name)
        elif self._consumer(selector_group, name, message) is not None:
            match_cursor.recheck(name)

    def _free_groups(self) -> None:
        """Offer message groups that became free to all selector groups that passed over them."""
        state = self._state
        freed, state.groups.freed = state.groups.freed, []
        for name in freed:
            for lane in self._queue.lanes:
                if lane.scan is not None:
                    for selector_group, match_cursor in lane.scan.match_cursors.items():
                        if name in match_cursor.passed:
                            match_cursor.recheck(name)
                            state.mark_ready(selector_group)

    def _deliver(self, lane: Lane, subscription: Subscription, message: Message) -> None:
        """Deliver a message to a consumer, unless it has expired."""
        turn, queue = self._turn, self._queue
        self._take(lane, message)
        if 0 < message.expires_ms <= turn.now_ms:
            self._dead_letters.expire(queue, message)
            return
        if message.attempts >= queue.policy.max_attempts and self._dead_letters.add_if_exhausted(
            queue, message
        ):
            return
        peer = subscription.peer
        rotation = subscription.rotation
        tag = 0
        if subscription.ack == c.AUTO:
            self._settled += 1
            if message.recorded:
                self._store.acknowledge(queue, message, subscription.client)
            if queue.limit_usage is not None:
                queue.limit_usage.bytes -= len(message.body)
        else:
            tag = peer.next_tag
            peer.next_tag = tag + 1
            peer.unsettled[tag] = (subscription, message)
            subscription.unsettled += 1
            if queue.account is not None:
                queue.account.keep(message.size)
            if subscription.lease_ms:
                self._leases.begin(peer, tag, turn.now_ms + subscription.lease_ms)
            if message.recorded and (message.attempts or message.position > lane.delivered_up_to):
                self._begun.append((message.position, message.attempts + 1))
                self._begun_by.append(subscription.client)
        if subscription.unsettled >= subscription.credit:
            rotation.leave(subscription)
            subscription.available = False
        elif rotation.first is subscription:
            rotation.first = subscription.next
        else:  # the owner of a message group, out of its turn
            rotation.served(subscription)
        group = self._queue.group_of(message)
        if group:
            self._state.groups.assign(group, subscription, unsettled=tag > 0)
        if not self._delivered:
            queue.samples.wait_ms.append(turn.now_ms - message.time_ms)
        if tag and not subscription.probe_tag:
            subscription.probe_tag, subscription.probe_ms = tag, turn.now_ms
        self._delivered += 1
        self._redelivered += message.attempts > 0
        subscription.delivered_directly += 1
        peer.deliveries.append((subscription, tag, message))
        if not peer.touched:
            peer.touched = True
            turn.out.touched.append(peer)

    def _take(self, lane: Lane, message: Message) -> None:
        at = index_in_memory(lane, message.sequence)
        if at is None:
            lane.paged.discard(message.position)
            lane.attempts.pop(message.position, None)
            return
        if at:
            del lane.ready[at]
        else:
            lane.ready.popleft()
        self._store.count_body(self._queue, -message.size)

    def _account(self) -> None:
        turn, queue = self._turn, self._queue
        if self._begun:
            out = turn.out
            destination, clients = out.destination(queue.address), b"".join(map(out.client, self._begun_by))
            out.record(records.returned(destination, self._begun, clients=clients))
        queue.counters.acked += self._settled
        queue.unsettled += self._delivered - self._settled
        queue.counters.delivered += self._delivered
        turn.counters["redelivered"] += self._redelivered
        if queue.is_of_topic:
            turn.count_deliveries_of_topic(queue.topic_address, self._delivered)
        else:
            turn.counters["delivered"] += self._delivered


def _rank(selector_group: SelectorGroup) -> int:
    """The place of a selector group among those that are served, by the priority of its consumers."""
    return -first.priority if (first := selector_group.available.first) is not None else 0
