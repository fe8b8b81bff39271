"""Looking at a queue without touching it: no counts, no change of order, nothing is made."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from broker_app.core.broker import Broker
from broker_app.core.message import Message
from broker_app.core.queue import Lane, Queue

READY, UNSETTLED = "ready", "unsettled"


class Item(NamedTuple):
    """One message as browsing sees it; `message` is None when its body has to be read from the journal."""

    priority: int
    position: int
    state: str
    attempts: int
    message: Message | None


def browse(broker: Broker, address: str, *, after: tuple[int, int] | None = None, limit: int = 50) -> list[Item] | None:
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
    skip = 0
    if start is not None:
        # Where the last one seen is gone, what came after it is found by position.
        passed = [index for index, message in enumerate(in_memory) if message.position == start]
        skip = passed[0] + 1 if passed else sum(message.position <= start for message in in_memory)
    for message in in_memory[skip:]:
        state = states.get(message, READY)
        yield Item(lane.priority, message.position, state, message.attempts, message)
    outside = start if start is not None and skip == len(in_memory) else 0
    for position in (position for position in lane.loading if position > outside):
        yield _paged(lane, position)
    for position in lane.paged.after(outside):
        yield _paged(lane, position)


def _paged(lane: Lane, position: int) -> Item:
    attempts = lane.attempts.get(position, 1) if position <= lane.mark else 0
    return Item(lane.priority, position, READY, attempts, None)
