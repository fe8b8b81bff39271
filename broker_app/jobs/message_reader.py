"""Reading what waits in a queue: first a survey of its messages, then their bodies, bit by bit."""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import AsyncIterator, Callable, Sequence
from typing import NamedTuple

from broker_app.core import views
from broker_app.core.broker import Broker
from broker_app.core.message import Message
from broker_app.core.model import Queue
from broker_app.core.records import Reader
from broker_app.core.turn import UNRECORDED
from broker_app.core.views import LaneContents
from broker_app.journal.errors import NoSuchPosition

JournalRead = Callable[[Sequence[int]], list[bytes]]

#: how long a reader may hold the loop before others have their turn
SLICE_S = 0.004


class Survey(NamedTuple):
    """All that waited in a queue at one moment, and what was handed out."""

    stretches: list[LaneContents]
    unsettled: int
    next_position: int

    @property
    def size(self) -> int:
        """The number of messages."""
        return sum(len(stretch.messages) + len(stretch.outside) for stretch in self.stretches)

    def positions(self) -> array[int]:
        """All of them in the order of delivery."""
        found: array[int] = array("Q")
        for stretch in self.stretches:
            found.extend(message.position for message in stretch.messages)
            found.extend(stretch.outside)
        return found


def survey(broker: Broker, queue: Queue) -> Survey:
    """Only between two batches. Costs 8 bytes a message that is not in memory."""
    return Survey(views.lane_contents(queue), queue.unsettled, broker.turn.next_position)


def survey_scheduled(broker: Broker, address: str) -> Survey:
    """The delayed messages of a destination. Only between two batches."""
    stretch = LaneContents([], array("Q", broker.scheduler.schedules[address].positions()))
    return Survey([stretch], 0, broker.turn.next_position)


def survey_history(broker: Broker, address: str) -> Survey:
    """The history of a topic. Only between two batches."""
    positions: array[int] = array("Q")
    for block in broker.histories.histories[address].blocks:
        positions.extend(block.positions)
    return Survey([LaneContents([], positions)], 0, broker.turn.next_position)


def record_of(read: JournalRead, position: int) -> bytes | None:
    """The PUBLISHED record at `position`; None when it is gone, or never was recorded."""
    if position >= UNRECORDED:
        return None
    try:
        return read((position,))[0]
    except NoSuchPosition:
        return None


async def messages(read: JournalRead, address: str, surveyed: Survey) -> AsyncIterator[Message]:
    """The messages of a survey in order, without those that have gone. Others have their turn meanwhile."""
    clock = asyncio.get_running_loop().time
    reader = Reader(address)
    until = clock() + SLICE_S
    for stretch in surveyed.stretches:
        for message in stretch.messages:
            yield message
            if clock() > until:
                await asyncio.sleep(0)
                until = clock() + SLICE_S
        for position in stretch.outside:
            record = record_of(read, position)
            if record is not None:
                yield reader.message(record, position)
            if clock() > until:
                await asyncio.sleep(0)
                until = clock() + SLICE_S
