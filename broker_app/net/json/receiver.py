"""Receiving by number in a JSON session."""

from __future__ import annotations

import base64
from typing import Final

from broker_app.core.message import Message
from broker_app.engine.client import EngineClient
from broker_app.net.http.large_body import Piece
from broker_app.net.http.limits import RestLimits
from broker_app.net.http.replies import separated
from broker_app.net.http.requests import within
from broker_app.net.json import events
from broker_app.net.json import operations as o
from broker_app.net.json.outbox import EventText, whole_if_short
from broker_app.net.rest.messages import message_json
from broker_app.net.rest.messages.chosen import ChosenMessages

#: the lease of a message that belongs to the connection
UNTIL_CLOSED: Final = 0.0


class Receiver:
    """Delivers messages to one session by their numbers."""

    def __init__(self, engine_client: EngineClient, limits: RestLimits, blocks: message_json.Blocks) -> None:
        self._engine_client = engine_client
        self._chosen = ChosenMessages(engine_client, engine_client.engine.records)
        self._limits = limits
        self._blocks = blocks
        self._ids = engine_client.engine.broker.turn.ids

    async def receive(self, operation: o.Receive, address: str, user: str) -> EventText:
        """The event `received`, of bounded size. Raises Refused."""
        lease_s = operation.lease_s
        if lease_s is None:
            lease_s = self._limits.default_lease_s
        elif lease_s != UNTIL_CLOSED:
            within("/lease_s", lease_s, 1, self._limits.max_lease_s)
        row = self._exact if operation.exact else self._row
        received = await self._chosen.receive(address, operation.seqs, user, lease_s, row)
        missing = [events.Missing(*one) for one in received.missing]
        answer = events.Received(ref=operation.ref, missing=missing)
        rows = separated(received.rows)
        return whole_if_short([events.encode(answer)[:-1], b',"items":[', *rows, b"]}"])

    def _row(self, tag: int, message: Message, until_ms: int) -> list[Piece]:
        receipt = self._engine_client.leases.receipt(tag)
        return message_json.received_pieces(message, self._ids.of(message), receipt, until_ms, self._blocks)

    def _exact(self, tag: int, message: Message, until_ms: int) -> list[Piece]:
        envelope = message.envelope
        without_body = events.encode(
            events.ExactMessage(
                seq=message.position,
                id=self._ids.of(message).decode(),
                receipt=self._engine_client.leases.receipt(tag),
                destination=envelope.address,
                time_ms=message.time_ms,
                attempts=message.attempts,
                priority=envelope.priority,
                persistent=envelope.persistent,
                expires_ms=message.expires_ms,
                block_base64=base64.b64encode(envelope.block).decode(),
                body_base64="",
            )
        )
        return [without_body[:-2], message_json.base64_piece(message.body), b'"}']
