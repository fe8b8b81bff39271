"""Finds one message of this broker by its id."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from typing import TypeVar

from broker_app.base.refused import Refused
from broker_app.core.broker import Broker
from broker_app.core.inspection import views
from broker_app.core.message import Message, MessageIds
from broker_app.core.model import Queue
from broker_app.engine.client import EngineClient
from broker_app.features.jobs import message_reader
from broker_app.features.jobs.message_reader import JournalRead
from broker_app.net.rest.messages.browse import READY, UNSETTLED, Shown, load, queue_of

_Value = TypeVar("_Value")

DELAYED = "delayed"
_QUEUES = "/queue/"
#: messages that are scanned to find one whose id does not contain its position
_MAX_SCANNED = 100_000


class MessageFinder:
    """Looks between two batches. It knows no rights: its callers check them."""

    def __init__(self, engine_client: EngineClient, journal_read: JournalRead) -> None:
        self._engine_client = engine_client
        self._read = journal_read
        self._ids = engine_client.engine.broker.turn.ids

    @property
    def _broker(self) -> Broker:
        return self._engine_client.engine.broker

    async def find(self, address: str, message_id: str, then: Callable[[str, Shown], _Value]) -> _Value:
        """Return `then(address, message)` for a message of the queue `address`. Raises Refused without that
        queue, or the message in it."""
        position, found = MessageIds.position(message_id), None
        if position is not None:
            found = await self._in_turn(position, partial(self._look, address, message_id, position, then))
            if found is None:
                position = await self._scan(address, message_id.encode())
        if position is not None and found is None:
            found = await self._in_turn(position, partial(self._look, address, message_id, position, then))
        if found is None:
            name = address.removeprefix(_QUEUES)
            raise Refused("not-found", f"there is no message {message_id[:80]!r} in queue {name!r}")
        return found

    def queues(self) -> list[str]:
        """The addresses of all queues in which messages are found."""
        return [address for address in self._broker.destinations.queues if address.startswith(_QUEUES)]

    async def queue_among(self, addresses: Iterable[str], message_id: str) -> str | None:
        """The address of the queue of a message whose id has its position, of these; None if it is in none.
        Other tasks run in between."""
        position = MessageIds.position(message_id)
        left = deque(addresses) if position is not None else deque()
        while left and position is not None:
            look = partial(self._among, left, message_id, position)
            found = await self._in_turn(position, look)
            if found is not None:
                return found
        return None

    def _among(self, left: deque[str], message_id: str, position: int) -> str | None:
        """Look in queues for one slice of time, and take those that do not have the message from `left`. It
        is called again when a record had to be fetched."""
        until = time.perf_counter() + message_reader.SLICE_S
        while left and time.perf_counter() < until:
            address = left[0]
            is_there = address in self._broker.destinations.queues
            if is_there and self._look(address, message_id, position, pair) is not None:
                return address
            left.popleft()
        return None

    async def _in_turn(self, position: int, look: Callable[[], _Value]) -> _Value:
        """The result of `look`, which may read the message at a position."""
        there = (position,)
        async with self._engine_client.read_in_turn(lambda: there, list, lambda *_: look()) as found:
            return found

    async def _scan(self, address: str, message_id: bytes) -> int | None:
        """The position of a message whose id does not contain it, such as a dead letter. Other tasks run in
        between."""
        snapshot = await self._engine_client.inspect(
            lambda: message_reader.snapshot_queue(self._broker, queue_of(self._broker, address))
        )
        scanned, found = 0, None

        def see(message: Message) -> bool:
            nonlocal scanned, found
            scanned += 1
            if message.explicit_id == message_id:
                found = message.position
            return found is None and scanned < _MAX_SCANNED

        await message_reader.read_each(self._read, address, snapshot, see)
        return found

    def _look(
        self, address: str, message_id: str, position: int, then: Callable[[str, Shown], _Value]
    ) -> _Value | None:
        row = self._delayed(address, message_id, position)
        if row is None:
            queue = queue_of(self._broker, address)
            row = self._in_memory(queue, message_id.encode(), position)
            row = row or self._paged(queue, message_id, position)
        return None if row is None else then(address, row)

    def _delayed(self, address: str, message_id: str, position: int) -> Shown | None:
        schedule = self._broker.scheduler.schedules.get(address)
        if schedule is None or not schedule.due_of(position):
            return None
        message = schedule.reader.message(self._read([position])[0], position)
        return Shown(DELAYED, 0, message) if self._ids.of(message).decode() == message_id else None

    def _in_memory(self, queue: Queue, message_id: bytes, position: int) -> Shown | None:
        of = self._ids.of
        for state, messages in (
            (UNSETTLED, views.unsettled(self._broker, queue)),
            (READY, views.in_memory(queue)),
        ):
            for message in messages:
                if _is(message, position) and of(message) == message_id:
                    attempts = message.attempts
                    if not message.has_body:
                        (message,) = load(self._read, queue, [position])
                    return Shown(state, attempts, message)
        return None

    def _paged(self, queue: Queue, message_id: str, position: int) -> Shown | None:
        attempts = views.attempts_outside(queue, position)
        if attempts is None:
            return None
        message = load(self._read, queue, [position])[0]
        return Shown(READY, attempts, message) if self._ids.of(message).decode() == message_id else None


def pair(address: str, row: Shown) -> tuple[str, Shown]:
    """The queue of a message with the message, for `find`."""
    return address, row


def _is(message: Message, position: int) -> bool:
    """True if a message may have an id with this position; one with an id of its own may have any."""
    return message.position == position or message.explicit_id is not None
