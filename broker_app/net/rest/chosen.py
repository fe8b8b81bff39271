"""Receiving messages by their positions (`seqs`), as notifications name them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple, cast

from broker_app.core import commands as c
from broker_app.core.chosen_delivery import NOT_READ
from broker_app.core.message import Message
from broker_app.core.transfers import DONE, GONE, TransferResult
from broker_app.jobs import message_reader
from broker_app.jobs.message_reader import JournalRead
from broker_app.net.rest.engine_client import EngineClient
from broker_app.net.rest.held_deliveries import Deliveries, wait_decided


class Received(NamedTuple):
    """Deliveries as (tag, message), and the results of the messages that were not delivered."""

    deliveries: list[tuple[int, Message]]
    missing: list[TransferResult]


class ChosenMessages:
    """Delivers waiting messages by position to a user of the REST API, under leases."""

    def __init__(self, engine_client: EngineClient, read: JournalRead) -> None:
        self._engine_client = engine_client
        self._read = read

    async def receive(
        self, address: str, seqs: Sequence[int], user: str, lease_s: float, client: str = ""
    ) -> Received:
        """Those of the messages that wait in the queue; `client` is that of `DeliverChosen`. Raises Refusal
        when the queue delivers none."""
        deliveries = Deliveries()
        subscription = self._engine_client.open_collection(deliveries, user)
        deliver = partial(c.DeliverChosen, self._engine_client.peer, subscription, address)
        terms = round(lease_s * 1000), None, client
        try:
            results = await self._results(deliver([c.Chosen(seq) for seq in seqs], *terms))
            unread = [result.position for result in results if result.status == NOT_READ]
            if unread:
                read = [c.Chosen(seq, await self._record(seq)) for seq in unread]
                results = [result for result in results if result.status != NOT_READ]
                results += await self._results(deliver(read, *terms))
            await wait_decided(self._engine_client, subscription, deliveries)
        finally:
            self._engine_client.close_collection(subscription)
        received = {message.position for _, message in deliveries.found}
        return Received(deliveries.found, [_missing(one) for one in results if one.position not in received])

    async def _results(self, command: c.DeliverChosen) -> list[TransferResult]:
        command.receipt = reply = self._engine_client.pending_reply()
        self._engine_client.submit(command)
        (answer,) = await self._engine_client.answer(reply)
        return cast("list[TransferResult]", answer)

    async def _record(self, seq: int) -> bytes | None:
        return await self._read.repeat(partial(message_reader.record_of, self._read, seq))


def _missing(result: TransferResult) -> TransferResult:
    """The result of a message that was not received. One that a reflex refused is gone: a dead letter."""
    return result._replace(status=GONE) if result.status == DONE else result
