"""Receiving messages by their positions (`seqs`), as notifications name them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, NamedTuple, cast

from broker_app.base.process.in_thread import in_thread_if_large
from broker_app.base.turns import in_turns
from broker_app.core import commands as c
from broker_app.core.delivery.chosen_delivery import NOT_READ
from broker_app.core.message import Message
from broker_app.core.position import Position
from broker_app.core.storage.transfers import DONE, GONE, TransferResult
from broker_app.core.turn import UNRECORDED
from broker_app.engine.client import EngineClient
from broker_app.engine.read_budget import READ_BYTES, READ_POSITIONS
from broker_app.features.jobs import message_reader
from broker_app.features.jobs.message_reader import JournalRead
from broker_app.net.http.large_body import Piece
from broker_app.net.http.refusals import invalid
from broker_app.net.rest.messages.held_deliveries import RequestDeliveries, wait_decided

#: the status of messages that were left out because the answer was long enough: ask for them again
LEFT: Final = "left"
NEVER_GIVEN: Final = "the journal of this broker never gave this position"
_LONG_ENOUGH: Final = "the answer is long enough; ask for it again"

#: makes JSON, in pieces, of a tag, a message and the end of its lease
Render = Callable[[int, Message, int], list[Piece]]


class Missing(NamedTuple):
    """A message that was not delivered, by its position as it was asked for."""

    seq: int | str
    status: str
    detail: str = ""


class Received(NamedTuple):
    """The rows of what was delivered, each in pieces, their tags, and the messages that were not
    delivered."""

    rows: list[list[Piece]]
    tags: list[int]
    missing: list[Missing]


class ChosenMessages:
    """Delivers waiting messages by position to a user of the REST API, under leases."""

    def __init__(self, engine_client: EngineClient, read: JournalRead) -> None:
        self._engine_client = engine_client
        self._read = read

    async def receive(
        self,
        address: str,
        seqs: Sequence[int | str],
        user: str,
        lease_s: float,
        render: Render,
        client: str = "",
    ) -> Received:
        """Deliver those of the messages that wait in the queue, up to `READ_BYTES` of bodies and at least
        one; `render` makes their rows, in a thread if they are large. `client` is that of `DeliverChosen`. A
        position of another journal names no message of this one. Raises Refused when the queue delivers
        none, and for what is no position."""
        asked, missing = self._own(seqs)
        received = Received([], [], missing)
        left, size = list(asked), 0
        while left and size < READ_BYTES:
            now, deliveries, results = await self._deliver(address, left, user, lease_s, client)
            left = left[len(now) :]
            missing += [Missing(asked[one.position], one.status, one.detail) for one in results]
            async for tag, message in in_turns(deliveries):
                size += len(message.body)
                received.tags.append(tag)
                render_it = partial(render, tag, message, self._engine_client.leases.until_ms(tag))
                received.rows.append(await in_thread_if_large(len(message.body), render_it))
                self._engine_client.leases.release_body(tag, message)
        missing += [Missing(asked[seq], LEFT, _LONG_ENOUGH) for seq in left]
        return received

    def _own(self, seqs: Sequence[int | str]) -> tuple[dict[int, int | str], list[Missing]]:
        """The positions in this journal, each as it was asked for, and those of other journals."""
        turn = self._engine_client.engine.broker.turn
        own: dict[int, int | str] = {}
        foreign = []
        for at, seq in enumerate(seqs):
            position = Position.of(seq)
            if position is None:
                raise invalid(f"/seqs/{at}", "must be a position: a number, or <tag>-<seq>", seq)
            if position.is_of(turn):
                own[position.seq] = seq
            else:
                foreign.append(Missing(seq, GONE, NEVER_GIVEN))
        return own, foreign

    async def _deliver(
        self, address: str, seqs: Sequence[int], user: str, lease_s: float, client: str
    ) -> tuple[Sequence[int], list[tuple[int, Message]], list[TransferResult]]:
        """Deliver the first of the messages; returns their positions, the deliveries and what is missing."""
        deliveries = RequestDeliveries()
        subscription = self._engine_client.open_collection(deliveries, user)
        deliver = partial(c.DeliverChosen, self._engine_client.peer, subscription, address)
        terms = round(lease_s * 1000), None, client
        try:
            async with self._read.turn(seqs[:READ_POSITIONS]) as now:
                results = await self._results(deliver([c.Chosen(seq) for seq in now], *terms))
                unread = [result.position for result in results if result.status == NOT_READ]
                if unread:
                    read = [c.Chosen(seq, await self._record(seq)) for seq in unread]
                    results = [result for result in results if result.status != NOT_READ]
                    results += await self._results(deliver(read, *terms))
                    del read
            # A reflex may take long to decide: others read meanwhile.
            await wait_decided(self._engine_client, subscription, deliveries)
        finally:
            self._engine_client.close_collection(subscription)
        received = {message.position for _, message in deliveries.found}
        return now, deliveries.found, [self._missing(one) for one in results if one.position not in received]

    async def _results(self, command: c.DeliverChosen) -> list[TransferResult]:
        command.receipt = reply = self._engine_client.pending_reply()
        self._engine_client.submit(command)
        (answer,) = await self._engine_client.answer(reply)
        return cast("list[TransferResult]", answer)

    async def _record(self, seq: int) -> bytes | None:
        return await self._read.repeat(partial(message_reader.record_of, self._read, seq))

    def _missing(self, result: TransferResult) -> TransferResult:
        """The result of a message that was not received. One that a reflex refused is gone: a dead letter."""
        if self._engine_client.engine.broker.turn.next_position <= result.position < UNRECORDED:
            return result._replace(status=GONE, detail=NEVER_GIVEN)
        return result._replace(status=GONE) if result.status == DONE else result
