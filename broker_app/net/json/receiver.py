"""Receiving by number in a JSON session."""

from __future__ import annotations

import base64
from typing import Final

from broker_app.core.message import Message
from broker_app.core.transfers import TransferResult
from broker_app.net.json import events
from broker_app.net.json import operations as o
from broker_app.net.rest import message_json
from broker_app.net.rest.chosen import ChosenMessages
from broker_app.net.rest.engine_client import EngineClient
from broker_app.net.rest.limits import RestLimits
from broker_app.net.rest.requests import within

#: the lease of a message that belongs to the connection
UNTIL_CLOSED: Final = 0.0
#: bytes of bodies after which an answer is sent, and messages that are read together
_ANSWER_BYTES: Final = 8 * 1024 * 1024
_TOGETHER: Final = 16
#: the status of messages that were left out because the answer was long enough: ask for them again
LEFT: Final = "left"


class Receiver:
    """Delivers messages to one session by their numbers."""

    def __init__(self, engine_client: EngineClient, limits: RestLimits, blocks: message_json.Blocks) -> None:
        self._engine_client = engine_client
        self._chosen = ChosenMessages(engine_client, engine_client.engine.records)
        self._limits = limits
        self._blocks = blocks
        self._ids = engine_client.engine.broker.turn.ids

    async def receive(self, operation: o.Receive, address: str, user: str) -> bytes:
        """The event `received`, of bounded size. Raises Refusal."""
        lease_s = operation.lease_s
        if lease_s is None:
            lease_s = self._limits.default_lease_s
        elif lease_s != UNTIL_CLOSED:
            within("/lease_s", lease_s, 1, self._limits.max_lease_s)
        row = self._exact if operation.exact else self._row
        items: list[bytes] = []
        missing: list[events.Missing] = []
        left, size = operation.seqs, 0
        while left and size < _ANSWER_BYTES:
            seqs, left = left[:_TOGETHER], left[_TOGETHER:]
            received = await self._chosen.receive(address, seqs, user, lease_s)
            size += sum(len(message.body) for _, message in received.deliveries)
            items += [row(tag, message) for tag, message in received.deliveries]
            missing += map(_missing, received.missing)
        missing += [events.Missing(seq, LEFT, "the answer is long enough") for seq in left]
        return events.joined(
            events.Received(ref=operation.ref, missing=missing), b'"items":[%b]}' % b",".join(items)
        )

    def _row(self, tag: int, message: Message) -> bytes:
        client = self._engine_client
        return message_json.received(
            message, self._ids.of(message), client.receipt(tag), client.lease_until_ms(tag), self._blocks
        )

    def _exact(self, tag: int, message: Message) -> bytes:
        envelope = message.envelope
        return events.encode(
            events.ExactMessage(
                seq=message.position,
                id=self._ids.of(message).decode(),
                receipt=self._engine_client.receipt(tag),
                destination=envelope.address,
                time_ms=message.time_ms,
                attempts=message.attempts,
                priority=envelope.priority,
                persistent=envelope.persistent,
                expires_ms=message.expires_ms,
                block_base64=base64.b64encode(envelope.block).decode(),
                body_base64=base64.b64encode(message.body).decode(),
            )
        )


def _missing(result: TransferResult) -> events.Missing:
    return events.Missing(result.position, result.status, result.detail)
