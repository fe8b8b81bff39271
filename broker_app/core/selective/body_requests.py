"""The bodies that one dispatch round reads from the journal."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from itertools import islice

from broker_app.core.model import Queue
from broker_app.core.outcome import Fetch
from broker_app.core.selective.index import SelectorGroup
from broker_app.core.selective.state import LaneScan, ScanCursor, SelectiveState, beyond, end_of
from broker_app.core.storage.lane import Lane
from broker_app.core.storage.message_store import MessageStore
from broker_app.core.turn import Turn


class BodyRequests:
    """Collects the messages that a round can deliver when their bodies are read, and requests these
    bodies."""

    def __init__(self, turn: Turn, store: MessageStore, queue: Queue, state: SelectiveState) -> None:
        self._turn = turn
        self._store = store
        self._queue = queue
        self._state = state
        self._wanted: dict[Lane, set[int]] = {}

    def request(self, selector_group: SelectorGroup, lane: Lane, sequences: Iterable[int]) -> None:
        """Request bodies for the credit that there is; more with message groups, since many may be passed
        over."""
        self._state.awaiting_bodies[selector_group] = None
        credit = sum(
            subscription.credit - subscription.unsettled for subscription in selector_group.available
        )
        limits = self._turn.limits
        most = limits.fetch_messages if self._state.grouped else min(limits.fetch_messages, max(credit, 1))
        wanted = self._wanted.setdefault(lane, set())
        wanted.update(sequence - lane.shift for sequence in islice(sequences, most))

    def read(self, lane: Lane) -> None:
        """Request bodies to deliver, and more to match."""
        turn, scan = self._turn, lane.scan
        assert scan is not None
        limits = turn.limits
        count = max(1, min(limits.fetch_messages, limits.fetch_bytes // max(1, lane.average_bytes)))
        wanted = self._wanted.get(lane)
        if wanted and not lane.loading:
            self._store.page_out(lane, 2 * limits.window)
            positions = [position for position in sorted(wanted) if position in lane.paged][:count]
            lane.paged.remove(positions)
            lane.loading = array("Q", positions)
            turn.out.fetches.append(Fetch(self._queue.address, lane.priority, positions))
        for scan_cursor in [scan_cursor for scan_cursor in scan.starved if not is_starved(lane, scan_cursor)]:
            del scan.starved[scan_cursor]
        if scan.starved and scan.reading is None:
            self._scan_further(lane, scan, count)

    def _scan_further(self, lane: Lane, scan: LaneScan, count: int) -> None:
        """Read the next run, alternately for the cursor furthest behind and the longest starved one."""
        scan.turns += 1
        scan_cursor = min(scan.starved, key=cursor_of) if scan.turns % 2 else next(iter(scan.starved))
        next_, message = next(beyond(lane, scan_cursor.cursor, {}))
        positions: list[int] = []
        if message is None:
            positions = list(islice(lane.paged.after(next_ - lane.shift - 1), count))
        if message is None and not (positions and positions[0] == next_ - lane.shift):
            return  # it is being read
        # Bodies in memory need another turn and no reading: then the list is empty.
        scan.reading = positions
        self._turn.out.fetches.append(Fetch(self._queue.address, lane.priority, positions))


def is_starved(lane: Lane, scan_cursor: ScanCursor) -> bool:
    """Return whether a selector group with credit has no matches, and the lane has more to match."""
    if scan_cursor.cursor >= end_of(lane):
        return False
    return any(
        match_cursor.selector_group.available and not match_cursor.matches
        for match_cursor in scan_cursor.match_cursors
    )


def cursor_of(scan_cursor: ScanCursor) -> int:
    """The sequence up to which a scan cursor has read."""
    return scan_cursor.cursor
