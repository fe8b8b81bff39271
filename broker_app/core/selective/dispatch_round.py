"""One turn of handing out for a queue whose consumers do not all take every message.

What came in and came back is looked at, groups that became free are offered, selections with credit are
served, and what has to be read for them is asked for.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from heapq import heappop
from itertools import islice

from broker_app.core import commands as c
from broker_app.core import records
from broker_app.core.dead_letters import DeadLetters
from broker_app.core.lane import Lane
from broker_app.core.message import Message
from broker_app.core.message_store import MessageStore
from broker_app.core.model import Queue, Subscription
from broker_app.core.outcome import Fetch
from broker_app.core.selective.index import Selection
from broker_app.core.selective.state import (
    MOST_PASSED,
    Front,
    SelectiveState,
    Survey,
    Track,
    beyond,
    end_of,
    index_in_memory,
    is_outside,
    take_back,
)
from broker_app.core.timers import Leases
from broker_app.core.turn import Turn


class DispatchRound:
    """One turn of handing out for one queue."""

    def __init__(
        self,
        turn: Turn,
        store: MessageStore,
        dead_letters: DeadLetters,
        leases: Leases,
        queue: Queue,
        sorter: SelectiveState,
    ) -> None:
        self._turn = turn
        self._store = store
        self._dead_letters = dead_letters
        self._leases = leases
        self._queue = queue
        self._sorter = sorter
        self._wants: dict[Lane, set[int]] = {}
        #: deliveries to be recorded as attempts
        self._begun: list[tuple[int, int]] = []
        self._delivered = self._settled = 0
        #: how much of its time for looking at messages is left
        self._left = turn.limits.looked_at

    def run(self) -> None:
        sorter, queue = self._sorter, self._queue
        for lane in queue.lanes:
            self._look(lane)
        self._free_groups()
        self._give_up_empty_lanes()
        while sorter.awake:
            awake, sorter.awake = sorter.awake, {}
            for selection in awake:
                self._serve(selection)
            self._free_groups()
            self._give_up_empty_lanes()
        for lane in queue.lanes:
            self._read(lane)
        sorter.at_hand.clear()
        self._account()

    # ------------------------------------------------------------------ looking

    def _look(self, lane: Lane) -> None:
        """Take note of what came back and of what came in, and go on looking where somebody is hungry."""
        sorter, survey = self._sorter, lane.scan
        if survey is None:
            survey = lane.scan = Survey()
            for selection in sorter.selections.values():
                survey.join(selection)
                sorter.wake(selection)
        for message in take_back(lane):
            self._note(survey, message)
        if survey.tracks[sorter.everything].cursor < end_of(lane):
            sorter.wake(sorter.everything)
        last = max(survey.fronts, key=_cursor, default=None)
        if last is not None and last.cursor < end_of(lane):
            for front in survey.fronts:
                if front is last or self._is_hungry(lane, front):
                    survey.starved[front] = None
        for front in sorted(survey.starved, key=_cursor):
            if front in survey.starved:
                self._advance(lane, survey, front)

    def _note(self, survey: Survey, message: Message) -> None:
        """A message has come back to a place that some have looked at already."""
        sorter = self._sorter
        matching = sorter.index.matching(message, self._turn.ids) if survey.fronts else ()
        for selection in (sorter.everything, *matching):
            track = survey.tracks[selection]
            if message.order <= track.reach:
                track.matches.insert(message.order)
                sorter.wake(selection)

    def _advance(self, lane: Lane, survey: Survey, front: Front) -> None:
        """Look at what lies before a front, as far as bodies are at hand."""
        sorter, ids, limits = self._sorter, self._turn.ids, self._turn.limits
        index = sorter.index
        ahead = min((f for f in survey.fronts if f.cursor > front.cursor), key=_cursor, default=None)
        for order, message in beyond(lane, front.cursor, sorter.at_hand):
            if ahead is not None and order > ahead.cursor:
                break
            if message is None or self._left <= 0 or not front.tracks:
                return
            before = index.spent
            front.cursor = order
            if len(front.tracks) == 1 and len(sorter.selections) > 2:  # without trying all the others
                (track,) = front.tracks
                index.spent += track.selection.condition.cost(message)
                wanted = track.selection.wants(message, ids)
                matching: tuple[Selection, ...] = (track.selection,) if wanted else ()
            else:
                matching = index.matching(message, ids)
            self._left -= max(1, index.spent - before)
            for selection in matching:
                track = survey.tracks[selection]
                if track.front is front:
                    survey.found(track, order, limits.known_matches)
                    sorter.wake(selection)
        if ahead is not None and front.tracks:
            survey.unite(front, ahead)

    def _give_up_empty_lanes(self) -> None:
        """Who waited to see more of a lane that others have emptied meanwhile is served from the next one."""
        for lane in self._queue.lanes:
            survey = lane.scan
            if survey is None or not survey.waiting:
                continue
            end = end_of(lane)
            for selection in [s for s in survey.waiting if survey.tracks[s].reach >= end]:
                del survey.waiting[selection]
                self._sorter.wake(selection)

    # ------------------------------------------------------------------ handing out

    def _serve(self, selection: Selection) -> None:
        """Hand out to the consumers of one selection, highest priority first."""
        for lane in self._queue.lanes:
            if not selection.line:
                return
            assert lane.scan is not None
            if self._serve_from(selection, lane, lane.scan, lane.scan.tracks[selection]):
                return

    def _serve_from(self, selection: Selection, lane: Lane, survey: Survey, track: Track) -> bool:
        """Hand out what a lane has for a selection; returns whether more may come that is not here yet."""
        self._propose(selection, track)
        unread = False
        while selection.line:
            candidate = self._candidate(track)
            order = self._first_match(lane, track)
            if candidate is not None and (not order or candidate[0] < order):
                order, group = candidate
                message = self._message(lane, order)
                if message is None and is_outside(lane, order - lane.shift):
                    self._want(selection, lane, track.passed[group])
                    track.unread.add(group)
                    unread = True
                else:
                    self._hand_out_passed(selection, lane, track, order, group, message)
                continue
            if not order:
                break
            message = self._message(lane, order)
            if message is not None:
                self._hand_out_match(selection, lane, track, order, message)
            elif is_outside(lane, order - lane.shift):
                self._want(selection, lane, track.matches)
                return True
            else:
                track.matches.discard(order)
        if not selection.line:
            return False
        if track.front is not None and track.front.cursor < end_of(lane):
            survey.starved[track.front] = None
            survey.waiting[selection] = None
            return True
        return unread

    def _propose(self, selection: Selection, track: Track) -> None:
        """What was passed over has another chance when they were read, and when their consumer has credit."""
        for group in track.unread:
            track.propose(group)
        track.unread.clear()
        if track.held:
            for subscription in [s for s in selection.line if s in track.held]:
                for group in track.held.pop(subscription):
                    track.propose(group)

    def _candidate(self, track: Track) -> tuple[int, str] | None:
        """The first message passed over that might go, taken off the heap of candidates."""
        while track.candidates:
            order, group = track.candidates[0]
            orders = track.passed.get(group)
            if orders and orders.first == order and group not in track.unread:
                return order, group
            heappop(track.candidates)
        return None

    def _first_match(self, lane: Lane, track: Track) -> int:
        """The order of the first match, 0 when none is known."""
        if track.front is None and not track.matches and track.cursor < end_of(lane):
            for order, _ in islice(beyond(lane, track.cursor, {}), self._turn.limits.known_matches):
                track.matches.append(order)
                track.cursor = order
        if track.passed_total > MOST_PASSED:
            return 0
        return track.matches.first

    def _message(self, lane: Lane, order: int) -> Message | None:
        """The message of this order if it waits and its body is here."""
        at = index_in_memory(lane, order)
        if at is not None:
            return lane.ready[at]
        position = order - lane.shift
        message = self._sorter.at_hand.get(position)
        return message if message is not None and position in lane.paged else None

    def _hand_out_match(
        self, selection: Selection, lane: Lane, track: Track, order: int, message: Message
    ) -> None:
        group = self._queue.group_of(message)
        if not group:
            track.matches.discard(order)
            self._hand_out(lane, selection.line[0], message)
            return
        subscription = None if group in track.passed else self._consumer(selection, group, message)
        if subscription is None:
            track.pass_over(group, order)
            self._hold(selection, track, group, message)
        else:
            track.matches.discard(order)
            self._hand_out(lane, subscription, message)

    def _hand_out_passed(
        self, selection: Selection, lane: Lane, track: Track, order: int, group: str, message: Message | None
    ) -> None:
        subscription = None if message is None else self._consumer(selection, group, message)
        if message is not None and subscription is None:
            heappop(track.candidates)
            self._hold(selection, track, group, message)
            return
        track.take_passed(group, order)
        track.propose(group)
        if message is not None and subscription is not None:
            self._hand_out(lane, subscription, message)

    def _consumer(self, selection: Selection, name: str, message: Message) -> Subscription | None:
        """Who of the selection may have a message of this group now."""
        group = self._sorter.groups.find(name)
        if group is None:
            return selection.line[0]
        owner = group.owner
        if owner is None:
            return None
        if self._queue.active not in (None, owner):
            return None if group.unsettled else selection.line[0]
        if owner.selection is selection:
            return owner if owner.available else None
        if group.unsettled or owner.selection is None or owner.selection.wants(message, self._turn.ids):
            return None
        return selection.line[0]  # its owner would never take it

    def _hold(self, selection: Selection, track: Track, name: str, message: Message) -> None:
        """Remember for whom a message passed over waits. A group that is free is proposed at once."""
        group = self._sorter.groups.find(name)
        owner = group.owner if group is not None else None
        if owner is not None and owner.selection is selection and not owner.available:
            track.held.setdefault(owner, set()).add(name)
        elif self._consumer(selection, name, message) is not None:
            track.propose(name)

    def _free_groups(self) -> None:
        """Groups that became free may go to whoever looks for them."""
        sorter = self._sorter
        freed, sorter.groups.freed = sorter.groups.freed, []
        for name in freed:
            for lane in self._queue.lanes:
                if lane.scan is not None:
                    for selection, track in lane.scan.tracks.items():
                        if name in track.passed:
                            track.propose(name)
                            sorter.wake(selection)

    def _hand_out(self, lane: Lane, subscription: Subscription, message: Message) -> None:
        """A message leaves its lane for a consumer, unless its time is over."""
        turn, queue = self._turn, self._queue
        self._take(lane, message)
        if 0 < message.expires_ms <= turn.now_ms:
            self._dead_letters.expire(queue, message)
            return
        if message.attempts >= queue.policy.max_attempts and self._dead_letters.add_worn_out(queue, message):
            return
        peer = subscription.peer
        line = subscription.line
        tag = 0
        if subscription.ack == c.AUTO:
            self._settled += 1
            if message.recorded:
                self._store.acknowledge(queue, message)
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
            if message.recorded and (message.attempts or message.position > lane.mark):
                self._begun.append((message.position, message.attempts + 1))
        if subscription.unsettled >= subscription.credit:
            line.remove(subscription)
            subscription.available = False
        elif len(line) > 1:
            line.remove(subscription)
            line.append(subscription)
        group = self._queue.group_of(message)
        if group:
            self._sorter.groups.give(group, subscription, unsettled=tag > 0)
        if not self._delivered:
            queue.waits.append(turn.now_ms - message.time_ms)
        if tag and not subscription.probe_tag:
            subscription.probe_tag, subscription.probe_ms = tag, turn.now_ms
        self._delivered += 1
        subscription.handed_out += 1
        peer.deliveries.append((subscription, tag, message))
        if not peer.touched:
            peer.touched = True
            turn.out.touched.append(peer)

    def _take(self, lane: Lane, message: Message) -> None:
        at = index_in_memory(lane, message.order)
        if at is None:
            lane.paged.discard(message.position)
            lane.attempts.pop(message.position, None)
            return
        if at:
            del lane.ready[at]
        else:
            lane.ready.popleft()
        self._store.count_body(self._queue, -message.size)

    # ------------------------------------------------------------------ reading, and what is recorded

    def _want(self, selection: Selection, lane: Lane, orders: Iterable[int]) -> None:
        """Bodies that there is credit for; of groups many more, because many of them may be passed over."""
        self._sorter.awaiting[selection] = None
        credit = sum(subscription.credit - subscription.unsettled for subscription in selection.line)
        limits = self._turn.limits
        most = limits.fetch_messages if self._sorter.grouped else min(limits.fetch_messages, max(credit, 1))
        wants = self._wants.setdefault(lane, set())
        wants.update(order - lane.shift for order in islice(orders, most))

    def _read(self, lane: Lane) -> None:
        """Ask for bodies to hand out, and for more to look at."""
        turn, survey = self._turn, lane.scan
        assert survey is not None
        limits = turn.limits
        count = max(1, min(limits.fetch_messages, limits.fetch_bytes // max(1, lane.average)))
        wanted = self._wants.get(lane)
        if wanted and not lane.loading:
            self._store.page_out(lane, 2 * limits.window)
            positions = [position for position in sorted(wanted) if position in lane.paged][:count]
            lane.paged.remove(positions)
            lane.loading = array("Q", positions)
            turn.out.fetches.append(Fetch(self._queue.address, lane.priority, positions))
        for front in [front for front in survey.starved if not self._is_hungry(lane, front)]:
            del survey.starved[front]
        if survey.starved and survey.reading is None:
            self._look_further(lane, survey, count)

    def _is_hungry(self, lane: Lane, front: Front) -> bool:
        if front.cursor >= end_of(lane):
            return False
        return any(track.selection.line and not track.matches for track in front.tracks)

    def _look_further(self, lane: Lane, survey: Survey, count: int) -> None:
        """Read the next run for one hungry front: the hindmost, or each second time the longest hungry."""
        survey.turns += 1
        front = min(survey.starved, key=_cursor) if survey.turns % 2 else next(iter(survey.starved))
        next_, message = next(beyond(lane, front.cursor, {}))
        positions: list[int] = []
        if message is None:
            positions = list(islice(lane.paged.after(next_ - lane.shift - 1), count))
        if message is None and not (positions and positions[0] == next_ - lane.shift):
            return  # it is being loaded
        # What is in memory needs another turn and no reading: then the list is empty.
        survey.reading = positions
        self._turn.out.fetches.append(Fetch(self._queue.address, lane.priority, positions))

    def _account(self) -> None:
        turn, queue = self._turn, self._queue
        if self._begun:
            out = turn.out
            out.record(records.returned(out.destination(queue.address), self._begun))
        queue.acked_total += self._settled
        queue.unsettled += self._delivered - self._settled
        queue.delivered_total += self._delivered
        turn.counters["delivered"] += self._delivered


def _cursor(front: Front) -> int:
    return front.cursor
