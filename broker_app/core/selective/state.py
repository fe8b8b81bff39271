"""The state of selective delivery: the matches of consumers in a queue.

Every message that waits in a lane has a sequence, whether its body is in memory or not. A `MatchCursor` keeps
the sequences of messages that match one selector group: 8 bytes each, and a bounded number of them. Match
cursors that have read a lane up to the same sequence share a `ScanCursor`: the messages behind it are read
once for all of them. A match may be outdated, because a message can match several groups and can leave in
many ways. So the lane is checked again before a message is delivered."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from heapq import heappush, merge
from itertools import islice

from broker_app.core.message import Message, MessageIds
from broker_app.core.model import Subscription
from broker_app.core.selective.groups import Groups
from broker_app.core.selective.index import Index, SelectorGroup
from broker_app.core.storage.lane import Lane, Positions, sequence_of

#: messages whose group has another owner that a match cursor passes over at most
MAX_PASSED_OVER = 1_000_000


class MatchCursor:
    """The matches of one selector group in one lane."""

    __slots__ = (
        "candidates",
        "cursor",
        "held",
        "matches",
        "passed",
        "passed_total",
        "scan_cursor",
        "selector_group",
        "unread",
    )

    def __init__(self, selector_group: SelectorGroup, scan_cursor: ScanCursor | None) -> None:
        self.selector_group = selector_group
        #: None for the group without a selector, which has to read nothing: `cursor` is then how far it is
        self.scan_cursor = scan_cursor
        self.cursor = 0
        self.matches = Positions()
        #: message group → sequences of matches that were passed over, because the group had another owner
        self.passed: dict[str, Positions] = {}
        self.passed_total = 0
        #: a heap of (sequence, message group): messages passed over that may be deliverable now
        self.candidates: list[tuple[int, str]] = []
        #: message groups with messages passed over whose owner has no credit
        self.held: dict[Subscription, set[str]] = {}
        #: message groups whose next message is being read
        self.unread: set[str] = set()

    @property
    def matched_up_to(self) -> int:
        """The sequence up to which all messages were matched."""
        return self.cursor if self.scan_cursor is None else self.scan_cursor.cursor

    def pass_over(self, group: str, sequence: int) -> None:
        """Pass over a match, because its message group has another owner or waits."""
        self.matches.discard(sequence)
        sequences = self.passed.get(group)
        if sequences is None:
            sequences = self.passed[group] = Positions()
        before = len(sequences)
        sequences.insert(sequence)
        self.passed_total += len(sequences) - before

    def take_passed(self, group: str, sequence: int) -> None:
        """Remove a match that was passed over."""
        sequences = self.passed[group]
        before = len(sequences)
        sequences.discard(sequence)
        self.passed_total -= before - len(sequences)
        if not sequences:
            del self.passed[group]

    def recheck(self, group: str) -> None:
        """Check again whether the next message of a message group can be delivered."""
        sequences = self.passed.get(group)
        if sequences:
            heappush(self.candidates, (sequences.first, group))


class ScanCursor:
    """The match cursors that have read a lane up to the same sequence."""

    __slots__ = ("cursor", "match_cursors")

    def __init__(self, cursor: int = 0) -> None:
        self.cursor = cursor
        self.match_cursors: dict[MatchCursor, None] = {}


class LaneScan:
    """The cursors of one lane.

    `starved` are scan cursors that consumers with credit wait for. `waiting` are selector groups that are not
    served from a lower priority before all of this lane was matched. `reading` are the positions that are
    being read to be matched: None for nothing, empty for another turn in memory."""

    __slots__ = ("match_cursors", "reading", "scan_cursors", "starved", "turns", "waiting")

    def __init__(self) -> None:
        self.match_cursors: dict[SelectorGroup, MatchCursor] = {}
        self.scan_cursors: list[ScanCursor] = []
        self.starved: dict[ScanCursor, None] = {}
        self.waiting: dict[SelectorGroup, None] = {}
        self.reading: list[int] | None = None
        self.turns = 0

    def join(self, selector_group: SelectorGroup) -> None:
        """Add a match cursor for a selector group, at the beginning of the lane."""
        if selector_group.selector is None:
            self.match_cursors[selector_group] = MatchCursor(selector_group, None)
            return
        scan_cursor = next((scan_cursor for scan_cursor in self.scan_cursors if not scan_cursor.cursor), None)
        if scan_cursor is None:
            scan_cursor = ScanCursor()
            self.scan_cursors.append(scan_cursor)
        match_cursor = self.match_cursors[selector_group] = MatchCursor(selector_group, scan_cursor)
        scan_cursor.match_cursors[match_cursor] = None

    def leave(self, selector_group: SelectorGroup) -> None:
        """Remove the match cursor of a selector group."""
        match_cursor = self.match_cursors.pop(selector_group)
        self.waiting.pop(selector_group, None)
        if match_cursor.scan_cursor is not None:
            self._take_from(match_cursor.scan_cursor, match_cursor)

    def found(self, match_cursor: MatchCursor, sequence: int, most: int) -> None:
        """Add a match. A match cursor with `most` matches leaves its scan cursor, and continues alone
        later."""
        match_cursor.matches.append(sequence)
        scan_cursor = match_cursor.scan_cursor
        if scan_cursor is not None and len(match_cursor.matches) >= most:
            self._take_from(scan_cursor, match_cursor)
            match_cursor.scan_cursor = behind = ScanCursor(sequence)
            behind.match_cursors[match_cursor] = None
            self.scan_cursors.append(behind)

    def merge(self, scan_cursor: ScanCursor, other: ScanCursor) -> None:
        """Join a scan cursor that has reached `other` with it."""
        for match_cursor in scan_cursor.match_cursors:
            match_cursor.scan_cursor = other
        other.match_cursors.update(scan_cursor.match_cursors)
        self.scan_cursors.remove(scan_cursor)
        if scan_cursor in self.starved:
            del self.starved[scan_cursor]
            self.starved[other] = None

    def _take_from(self, scan_cursor: ScanCursor, match_cursor: MatchCursor) -> None:
        del scan_cursor.match_cursors[match_cursor]
        if not scan_cursor.match_cursors:
            self.scan_cursors.remove(scan_cursor)
            self.starved.pop(scan_cursor, None)


class SelectiveState:
    """The state of one queue with selective delivery."""

    def __init__(self, most_idle: int) -> None:
        self.everything = SelectorGroup(None)
        self.selector_groups: dict[str, SelectorGroup] = {"": self.everything}
        self.index = Index()
        self.groups = Groups(most_idle)
        #: whether messages with a group may wait or be unsettled here
        self.grouped = False
        #: since when nothing waits and nothing is unsettled
        self.empty_since_ms = 0
        #: selector groups that may have new matches
        self.ready_groups: dict[SelectorGroup, None] = {}
        #: selector groups that wait for bodies
        self.awaiting_bodies: dict[SelectorGroup, None] = {}
        #: messages that are paged and whose bodies are in memory until the end of this turn
        self.loaded_bodies: dict[int, Message] = {}

    def shift(self, by_ms: int) -> None:
        """Shift since when something is unused or empty, because the clock was set."""
        if self.empty_since_ms:
            self.empty_since_ms += by_ms
        for selector_group in self.selector_groups.values():
            selector_group.unused_since_ms += by_ms

    def mark_ready(self, selector_group: SelectorGroup) -> None:
        """Have a selector group served in the next round, if it has credit."""
        if selector_group.available:
            self.ready_groups[selector_group] = None

    def note_returned(self, scan: LaneScan, message: Message, ids: MessageIds) -> None:
        """Match a returned message for the groups that have read its place already."""
        matching = self.index.matching(message, ids) if scan.scan_cursors else ()
        for selector_group in (self.everything, *matching):
            match_cursor = scan.match_cursors[selector_group]
            if message.sequence <= match_cursor.matched_up_to:
                match_cursor.matches.insert(message.sequence)
                self.mark_ready(selector_group)


# ---------------------------------------------------------------------- the messages of a lane, by sequence


def index_in_memory(lane: Lane, sequence: int) -> int | None:
    """The index in `lane.ready` of the message with this sequence, None when it is not there."""
    ready = lane.ready
    if not ready or not ready[0].sequence <= sequence <= ready[-1].sequence:
        return None
    if ready[0].sequence == sequence:
        return 0
    at = bisect_left(ready, sequence, key=sequence_of)
    return at if at < len(ready) and ready[at].sequence == sequence else None


def is_paged_out(lane: Lane, position: int) -> bool:
    """Return whether the message waits and its body is only in the journal."""
    if position in lane.paged:
        return True
    loading = lane.loading
    at = bisect_left(loading, position)
    return at < len(loading) and loading[at] == position


def end_of(lane: Lane) -> int:
    """The highest sequence of all messages in a lane."""
    outside = max(lane.paged.last, lane.loading[-1] if lane.loading else 0)
    return max(outside + lane.shift if outside else 0, lane.ready[-1].sequence if lane.ready else 0)


def beyond(
    lane: Lane, sequence: int, loaded_bodies: dict[int, Message]
) -> Iterator[tuple[int, Message | None]]:
    """(sequence, message) of the messages beyond `sequence`; None for one whose body is not in memory."""
    ready = lane.ready
    in_memory = (
        (ready[at].sequence, ready[at])
        for at in range(bisect_right(ready, sequence, key=sequence_of), len(ready))
    )
    if not lane.paged and not lane.loading:
        return in_memory
    shift = lane.shift
    positions: Iterator[int] = lane.paged.after(max(0, sequence - shift))
    if lane.loading:
        loading = lane.loading
        positions = merge(positions, islice(loading, bisect_right(loading, sequence - shift), None))
    outside = ((position + shift, loaded_bodies.get(position)) for position in positions)
    return merge(in_memory, outside, key=_sequence) if ready else outside


def _sequence(entry: tuple[int, Message | None]) -> int:
    return entry[0]


def restore_returned(lane: Lane) -> list[Message]:
    """Move returned messages to their place in `lane.ready`; returns them."""
    messages = [message for _, message in lane.returned]
    lane.returned.clear()
    ready = lane.ready
    if len(messages) > 64:
        merged = sorted([*messages, *ready], key=sequence_of)
        ready.clear()
        ready.extend(merged)
    else:
        for message in messages:
            ready.insert(bisect_right(ready, message.sequence, key=sequence_of), message)
    return messages
