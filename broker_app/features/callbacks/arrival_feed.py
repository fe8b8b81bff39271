"""Arrival feed: what a subscriber is notified of that takes nothing from its queue.

A notification is made when it can be sent and never queued: whatever came meanwhile is in it, and the number
of all waiting messages is that of the moment. Nothing is reported before it is in the journal.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final, NamedTuple, Protocol

from broker_app.core.broker import Broker
from broker_app.core.inspection import views
from broker_app.core.inspection.pending_watch import Arrivals, PendingWatch
from broker_app.core.message import Message
from broker_app.core.model import Queue
from broker_app.core.position import BEGINNING, FROM_NOW, Position
from broker_app.core.turn import UNRECORDED

#: messages that a notification lists at most
MOST: Final = 100
#: seconds in which further arrivals join a notification; after one that could not list all of them, longer
COALESCE_S: Final = 0.01
COALESCE_MANY_S: Final = 0.25


class Notification(NamedTuple):
    """Messages that began to wait in a queue: new ones, and those that came back.

    `seqs` and `ids` are their positions and ids; `more` is True if there are others that are not listed.
    `pending` is the number of all messages that wait in the queue, `seq` the position up to which the feed
    has reported, after which a new feed continues; `journal` is the tag of the journal that has these
    positions. With `unknown_position`, this journal never gave the position that the subscriber named: all
    that waits is reported."""

    seq: int
    seqs: list[int]
    ids: list[str]
    pending: int
    more: bool
    journal: str
    unknown_position: bool = False

    @property
    def is_empty(self) -> bool:
        return not (self.seqs or self.more or self.unknown_position)

    def members(self) -> dict[str, object]:
        """Its members as subscribers get them."""
        members = self._asdict()
        if not self.unknown_position:
            del members["unknown_position"]
        return members


class Inspect(Protocol):
    """Returns the result of a function that is called between two batches, when all state is in the journal;
    again when records had to be fetched for it, whose bodies it does not need (`inspect_heads` of
    `EngineClient`)."""

    def __call__(self, read: Callable[[], Notification]) -> Awaitable[Notification]: ...


class ReadRecords(Protocol):
    """Reads records, or raises NotLoaded while they are being fetched (`Engine.records`)."""

    def __call__(self, positions: Sequence[int]) -> list[bytes]: ...


class ArrivalFeed:
    """The arrivals of one queue since `after`, for one subscriber.

    The first notification has what waits behind `after` and what came back, and comes at once, if there is
    anything; the others as messages arrive. `close` ends the feed.
    """

    def __init__(
        self,
        broker: Broker,
        records: ReadRecords,
        inspect: Inspect,
        address: str,
        after: Position = BEGINNING,
        *,
        coalesce_s: float = COALESCE_S,
        wake: Callable[[], None] | None = None,
    ) -> None:
        self._broker = broker
        self._records = records
        self._inspect = inspect
        self._address = address
        self._after = after
        self._journal = broker.turn.ids.journal
        self._seq = 0
        self._coalesce_s = self._usual_coalesce_s = coalesce_s
        self._loop = asyncio.get_running_loop()
        self._woken = asyncio.Event()
        self._wake = wake
        self._timer: asyncio.TimerHandle | None = None
        self._watch = PendingWatch(broker.store.taps, address, broker.turn.ids, MOST, self._notice)
        self._began = False
        self._watch.open()
        self._woken.set()

    def close(self) -> None:
        """Watch the queue no longer."""
        if self._timer is not None:
            self._timer.cancel()
        self._watch.close()
        self._wake = None

    @property
    def is_due(self) -> bool:
        """True if `next` has something to report, as far as is known."""
        return self._woken.is_set()

    async def next(self) -> Notification:
        """The next notification, when something has arrived."""
        while True:
            await self._woken.wait()
            found = await self.take()
            if not found.is_empty:
                return found

    async def take(self) -> Notification:
        """Return what began to wait since the last call; possibly nothing. It may be called again after it
        has raised, as when the journal cannot be read."""
        found = await self._inspect(self._arrived if self._began else self._first)
        self._began = True
        self._seq = max(self._seq, found.seq)
        return found._replace(seq=self._seq)

    async def pending(self, after: Position = BEGINNING) -> Notification:
        """List what waits in the queue behind the position `after`, in the order of positions; `more` is True
        if there is more behind the last."""
        return await self._inspect(partial(self._listed, after, returned=False))

    def position(self, seq: int) -> Position:
        """The position `seq` of this journal."""
        return Position(seq, self._journal)

    # ------------------------------------------------------------------ between two batches

    def _notice(self) -> None:
        self._timer = self._loop.call_later(self._coalesce_s, self._due)

    def _due(self) -> None:
        self._woken.set()
        if self._wake is not None:
            self._wake()

    def _arrived(self) -> Notification:
        arrivals = self._take()
        self._coalesce_s = COALESCE_MANY_S if arrivals.more else self._usual_coalesce_s
        seqs, ids, more = arrivals.seqs, arrivals.ids, arrivals.more
        return Notification(_highest(seqs), seqs, ids, self._depth, more, self._journal)

    def _first(self) -> Notification:
        found = self._listed(self._after, returned=True)
        self._take()  # it is among what was found
        return found

    def _take(self) -> Arrivals:
        """Take what arrived; it is not due a second time."""
        if self._timer is not None:
            self._timer.cancel()
        self._woken.clear()
        return self._watch.take()

    def _listed(self, after: Position, *, returned: bool) -> Notification:
        unknown = not after.was_given(self._broker.turn)
        begin = 0 if unknown else after.seq
        reported = 0 if begin == FROM_NOW else begin
        queue = self._broker.destinations.queues.get(self._address)
        if queue is None:
            return Notification(reported, [], [], 0, False, self._journal, unknown)
        found = views.waiting_after(queue, begin, MOST + 1, returned=returned)
        listed = found[:MOST]
        ids = [self._id(queue, one) for one in listed]
        seqs = [one if isinstance(one, int) else one.position for one in listed]
        more, highest = len(found) > MOST, max(reported, _highest(seqs))
        return Notification(highest, seqs, ids, self._depth, more, self._journal, unknown)

    def _id(self, queue: Queue, waiting: Message | int) -> str:
        if isinstance(waiting, int):
            waiting = queue.reader.head(self._records((waiting,))[0], waiting)
        return self._broker.turn.ids.of(waiting).decode()

    @property
    def _depth(self) -> int:
        queue = self._broker.destinations.queues.get(self._address)
        return 0 if queue is None else queue.depth


def _highest(seqs: list[int]) -> int:
    """The highest position in the journal, 0 if there is none: messages outside it end with the process."""
    return max((seq for seq in seqs if seq < UNRECORDED), default=0)
