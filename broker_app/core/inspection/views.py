"""Read-only views of the messages in queues, for modules outside the core, which never read lanes.

They are used between two calls of `Broker.decide`, and iterators are consumed before the next call.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from heapq import merge
from itertools import islice
from typing import NamedTuple

from broker_app.core.broker import Broker
from broker_app.core.message import Message
from broker_app.core.model import Queue
from broker_app.core.storage.lane import Lane


class LaneContents(NamedTuple):
    """Messages of one priority in the order of delivery: those in memory, then positions of the others."""

    messages: list[Message]
    outside: array[int]


def lane_contents(queue: Queue) -> list[LaneContents]:
    """All waiting messages by lane. Takes 8 bytes for each message that is not in memory."""
    found = []
    for lane in queue.lanes:
        outside: array[int] = array("Q", lane.loading)
        for chunk in lane.paged.chunks():
            outside.extend(chunk)
        found.append(LaneContents(list(lane.in_memory()), outside))
    return found


def in_memory(queue: Queue) -> Iterator[Message]:
    """Waiting messages whose bodies are in memory, in the order of delivery."""
    for lane in queue.lanes:
        yield from lane.in_memory()


def outside(queue: Queue, after: int = 0) -> Iterator[int]:
    """Positions behind `after` of waiting messages whose bodies are only in the journal."""
    for lane in queue.lanes:
        yield from (position for position in lane.loading if position > after)
        yield from lane.paged.after(after)


def waiting_after(queue: Queue, after: int, limit: int, *, returned: bool = False) -> list[Message | int]:
    """Up to `limit` waiting messages at positions behind `after`, in the order of positions: the message, or
    the position of one whose body is only in the journal. With `returned`, also those before it that were
    delivered and returned, as far as they are in memory."""
    found = merge(*(_lane_after(lane, after, returned=returned) for lane in queue.lanes), key=_position)
    return list(islice(found, limit))


def _lane_after(lane: Lane, after: int, *, returned: bool) -> Iterator[Message | int]:
    in_memory = [one for one in lane.in_memory() if one.position > after or (returned and one.attempts)]
    in_memory.sort(key=_position)
    outside = merge(
        (position for position in lane.loading if position > after), lane.paged.after(after), key=_position
    )
    return merge(in_memory, outside, key=_position)


def _position(waiting: Message | int) -> int:
    return waiting if isinstance(waiting, int) else waiting.position


def first_of_each_priority(queue: Queue) -> Iterator[Message | int]:
    """The next message of each priority: itself where its body is in memory, else its position."""
    for lane in queue.lanes:
        first = lane.first() or next(iter(lane.loading), None) or next(lane.paged.after(0), None)
        if first is not None:
            yield first


def attempts_outside(queue: Queue, position: int) -> int | None:
    """Delivery attempts of a waiting message whose body is only in the journal; None when there is none."""
    for lane in queue.lanes:
        if position in lane.loading or next(lane.paged.after(position - 1), None) == position:
            return lane.attempts_of(position)
    return None


def has_untried(queue: Queue, up_to: int) -> bool:
    """Return whether a recorded message up to the position `up_to` waits that was never delivered."""
    return any(lane.has_untried(up_to) for lane in queue.lanes)


def unsettled(broker: Broker, queue: Queue) -> Iterator[Message]:
    """Messages of a queue that were delivered and are not settled."""
    for holding in broker.unsettled.of(queue):
        yield holding.message
