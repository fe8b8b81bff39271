"""Snapshots of the messages of a queue, and reading them without blocking the event loop."""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import NamedTuple, Protocol, TypeVar

from broker_app.core.broker import Broker
from broker_app.core.durability.record_reader import Reader
from broker_app.core.inspection import views
from broker_app.core.inspection.views import LaneContents
from broker_app.core.message import Message
from broker_app.core.model import Queue
from broker_app.core.turn import UNRECORDED
from broker_app.engine.read_budget import READ_POSITIONS
from broker_app.journal.errors import NoSuchPosition

_Value = TypeVar("_Value")


class JournalRead(Protocol):
    """Reads records; see `engine.record_reader.RecordReader`."""

    def __call__(self, positions: Sequence[int]) -> list[bytes]: ...

    async def repeat(self, work: Callable[[], _Value]) -> _Value: ...

    def turn(self, positions: Sequence[int]) -> AbstractAsyncContextManager[Sequence[int]]: ...


#: how long a reader may block the event loop
SLICE_S = 0.004


class QueueSnapshot(NamedTuple):
    """The waiting messages of a queue at one moment, and the number of unsettled ones."""

    lanes: list[LaneContents]
    unsettled: int
    next_position: int

    @property
    def size(self) -> int:
        """The number of messages."""
        return sum(len(lane.messages) + len(lane.outside) for lane in self.lanes)

    def positions(self) -> array[int]:
        """All positions in the order of delivery."""
        found: array[int] = array("Q")
        for lane in self.lanes:
            found.extend(message.position for message in lane.messages)
            found.extend(lane.outside)
        return found


def snapshot_queue(broker: Broker, queue: Queue) -> QueueSnapshot:
    """The waiting messages of a queue. Only between two batches. Costs 8 bytes a paged message."""
    return QueueSnapshot(views.lane_contents(queue), queue.unsettled, broker.turn.next_position)


def snapshot_scheduled(broker: Broker, address: str) -> QueueSnapshot:
    """The delayed messages of a destination. Only between two batches."""
    lane = LaneContents([], array("Q", broker.scheduler.schedules[address].positions()))
    return QueueSnapshot([lane], 0, broker.turn.next_position)


def snapshot_history(broker: Broker, address: str) -> QueueSnapshot:
    """The history of a topic. Only between two batches."""
    positions: array[int] = array("Q")
    for block in broker.histories.histories[address].blocks:
        positions.extend(block.positions)
    return QueueSnapshot([LaneContents([], positions)], 0, broker.turn.next_position)


def record_of(read: JournalRead, position: int) -> bytes | None:
    """The PUBLISHED record at `position`; None if it was deleted or never recorded."""
    if position >= UNRECORDED:
        return None
    try:
        return read((position,))[0]
    except NoSuchPosition:
        return None


async def read_each(
    read: JournalRead, address: str, snapshot: QueueSnapshot, see: Callable[[Message], bool]
) -> None:
    """Call `see` with the messages of a snapshot in order, without those deleted since, until it returns
    False. Other tasks run in between. What it keeps of a message that was read is not in the budget of what
    is read back."""
    clock = asyncio.get_running_loop().time
    reader = Reader(address)
    until = clock() + SLICE_S
    for lane in snapshot.lanes:
        for message in lane.messages:
            if not see(message):
                return
            if clock() > until:
                await asyncio.sleep(0)
                until = clock() + SLICE_S
        done = 0
        while done < len(lane.outside):
            async with read.turn(lane.outside[done : done + READ_POSITIONS]) as positions:
                done += len(positions)
                for position in positions:
                    record = await read.repeat(partial(record_of, read, position))
                    if record is not None and not see(reader.message(record, position)):
                        return
                    del record  # it may be large, and the next one is read before it is replaced
                    if clock() > until:
                        await asyncio.sleep(0)
                        until = clock() + SLICE_S
