"""Browsing of queues: nothing is counted, reordered or created."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from heapq import merge
from itertools import islice
from operator import itemgetter
from typing import NamedTuple

from broker_app.core.broker import Broker
from broker_app.core.message import Message
from broker_app.core.model import Queue
from broker_app.core.storage.lane import UNREACHED, Lane, sequence_of
from broker_app.core.turn import UNRECORDED

READY, UNSETTLED, DELAYED = "ready", "unsettled", "delayed"


class Item(NamedTuple):
    """One message as browsing sees it; `message` is None when its body has to be read from the journal."""

    priority: int
    position: int
    state: str
    attempts: int
    message: Message | None
    #: when it is due, of a message that is delayed
    due_ms: int = 0

    @property
    def cursor(self) -> tuple[int, int]:
        """The cursor behind it."""
        return self.due_ms or self.priority, self.position


class LeftMemory(LookupError):
    """The body of a message has left memory since the message was found."""


def message_of(item: Item) -> Message | None:
    """The message of an item that was found earlier; None when its body has to be read from the journal.
    Raises LeftMemory."""
    if item.message is not None and not item.message.has_body:
        raise LeftMemory(item.position)
    return item.message


def browse_delayed(
    broker: Broker, address: str, *, after: tuple[int, int] | None = None, limit: int = 50
) -> list[Item]:
    """Up to `limit` messages that are not due, in the order of their times, behind the (time, position)
    `after`. Their bodies are in the journal."""
    schedule = broker.scheduler.schedules.get(address)
    if schedule is None:
        return []
    rows = islice(schedule.after(*(after or (0, 0))), limit)
    return [Item(0, position, DELAYED, 0, None, due_ms) for due_ms, position in rows]


def browse(
    broker: Broker,
    address: str,
    *,
    after: tuple[int, int] | None = None,
    limit: int = 50,
    backwards: bool = False,
) -> list[Item] | None:
    """Up to `limit` messages in the order of delivery, behind the (priority, position) `after`; None when
    there is no such queue. Backwards, the last one comes first, and `after` is the one before which to
    continue. Reads 8 bytes for each paged message it passes over, never the journal."""
    queue = broker.destinations.queues.get(address)
    if queue is None:
        return None
    return list(islice(_items(broker, queue, after, backwards), limit))


def _items(broker: Broker, queue: Queue, after: tuple[int, int] | None, backwards: bool) -> Iterator[Item]:
    held = [holding.message for holding in broker.unsettled.of(queue)]
    in_lane = _lane_backwards if backwards else _lane_forwards
    for lane in reversed(queue.lanes) if backwards else queue.lanes:
        if after and (lane.priority < after[0] if backwards else lane.priority > after[0]):
            continue
        start = after[1] if after and lane.priority == after[0] else None
        unsettled = [message for message in held if queue.lane_of(message) == lane.priority]
        states = dict.fromkeys(unsettled, UNSETTLED)
        in_memory = sorted([*unsettled, *lane.in_memory()], key=sequence_of)
        yield from in_lane(lane, states, in_memory, start)


def _lane_forwards(
    lane: Lane, states: dict[Message, str], in_memory: list[Message], start: int | None
) -> Iterator[Item]:
    passed = 0
    if start is not None:
        # When the last one seen was removed, others of its kind (recorded or not) show how far it was.
        recorded = start < UNRECORDED
        passed = max(
            (m.sequence for m in in_memory if m.recorded is recorded and m.position <= start), default=0
        )
        outside = [position for position in (*lane.loading[:1], lane.paged.first) if position]
        if outside and min(outside) <= start < UNRECORDED:
            passed = max(passed, start + lane.shift)
    here = ((m.sequence, _held(lane, m, states)) for m in in_memory if m.sequence > passed)
    beyond = max(0, passed - lane.shift)
    positions = merge(lane.loading[bisect_right(lane.loading, beyond) :], lane.paged.after(beyond))
    there = ((position + lane.shift, _paged(lane, position)) for position in positions)
    for _, item in merge(here, there, key=itemgetter(0)):
        yield item


def _lane_backwards(
    lane: Lane, states: dict[Message, str], in_memory: list[Message], start: int | None
) -> Iterator[Item]:
    reached = UNREACHED
    if start is not None:
        recorded = start < UNRECORDED
        reached = min(
            (m.sequence for m in in_memory if m.recorded is recorded and m.position >= start),
            default=start + lane.shift if recorded else UNREACHED,
        )
    here = ((m.sequence, _held(lane, m, states)) for m in reversed(in_memory) if m.sequence < reached)
    beyond = reached - lane.shift
    loading = reversed(lane.loading[: bisect_left(lane.loading, beyond)])
    positions = merge(loading, lane.paged.before(beyond), reverse=True)
    there = ((position + lane.shift, _paged(lane, position)) for position in positions)
    for _, item in merge(here, there, key=itemgetter(0), reverse=True):
        yield item


def _held(lane: Lane, message: Message, states: dict[Message, str]) -> Item:
    state = states.get(message, READY)
    in_memory = message if message.has_body else None
    return Item(lane.priority, message.position, state, message.attempts, in_memory)


def _paged(lane: Lane, position: int) -> Item:
    return Item(lane.priority, position, READY, lane.attempts_of(position), None)
