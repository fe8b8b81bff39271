"""Looking at a queue without touching it: no counts, no change of order, nothing is made."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from broker_app.core.broker import Broker
from broker_app.core.message import Message
from broker_app.core.queue import Lane, Queue
from broker_app.core.state import UNRECORDED

READY, UNSETTLED = "ready", "unsettled"


class Item(NamedTuple):
    """One message as browsing sees it; `message` is None when its body has to be read from the journal."""

    priority: int
    position: int
    state: str
    attempts: int
    message: Message | None


def browse(
    broker: Broker, address: str, *, after: tuple[int, int] | None = None, limit: int = 50
) -> list[Item] | None:
    """Up to `limit` messages in the order of delivery, behind the (priority, position) `after`; None when
    there is no such queue. Reads 8 bytes for each paged message it passes over, never the journal."""
    queue = broker.queues.get(address)
    if queue is None:
        return None
    return list(islice(_items(broker, queue, after), limit))


def _items(broker: Broker, queue: Queue, after: tuple[int, int] | None) -> Iterator[Item]:
    held = [
        message
        for peer in broker.peers
        for subscription, message in peer.unsettled.values()
        if subscription.queue is queue
    ]
    for lane in queue.lanes:
        if after and lane.priority > after[0]:
            continue
        start = after[1] if after and lane.priority == after[0] else None
        unsettled = [message for message in held if message.envelope.priority == lane.priority]
        yield from _in_lane(lane, unsettled, start)


def _in_lane(lane: Lane, unsettled: list[Message], start: int | None) -> Iterator[Item]:
    states = dict.fromkeys(unsettled, UNSETTLED)
    in_memory = sorted([*unsettled, *lane.in_memory()], key=lambda message: message.order)
    outside = lane.loading[:1] or array("Q", islice(lane.paged.after(0), 1))
    skip, passed = 0, 0
    if start is not None and outside and outside[0] <= start < UNRECORDED:
        skip, passed = len(in_memory), start  # what is outside memory stands behind what is in it
    elif start is not None:
        # Where the last one seen is gone, those of its kind (recorded or not) say how far it had come.
        recorded = start < UNRECORDED
        alike = [at for at, m in enumerate(in_memory) if m.recorded is recorded and m.position <= start]
        skip = alike[-1] + 1 if alike else 0
    for message in in_memory[skip:]:
        state = states.get(message, READY)
        yield Item(lane.priority, message.position, state, message.attempts, message)
    for position in lane.loading:
        if position > passed:
            yield _paged(lane, position)
    for position in lane.paged.after(passed):
        yield _paged(lane, position)


def _paged(lane: Lane, position: int) -> Item:
    attempts = lane.attempts.get(position, 1) if position <= lane.mark else 0
    return Item(lane.priority, position, READY, attempts, None)
