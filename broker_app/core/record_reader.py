"""Turns PUBLISHED records back into messages."""

from __future__ import annotations

from broker_app.core import records
from broker_app.core.header_block import group
from broker_app.core.message import DeliveryOptions, Envelope, Message


class Reader:
    """Turns PUBLISHED records of one queue back into messages; equal header blocks share an envelope."""

    MAX_ENVELOPES = 64

    def __init__(self, address: str) -> None:
        self._address = address
        self._envelopes: dict[tuple[bytes, int, int, str], Envelope] = {}

    def message(self, record: bytes, position: int) -> Message:
        """The message of the PUBLISHED record at a position."""
        _, _, _, flags, priority, _, block_size, time_ms, expires_ms = records.unpack_published(record)
        block_at = records.block_at(record, 0, flags)
        explicit: bytes | None = None
        if flags & records.HAS_ID:
            explicit = record[records.PUBLISHED_SIZE : records.PUBLISHED_SIZE + records.ID_SIZE]
        address = self._address
        if flags & records.HAS_ADDRESS:
            address = records.address_of(record, 0, flags)
        body_at = block_at + block_size
        envelope = self._envelope(record[block_at:body_at], priority, flags, address)
        message = Message(envelope, record[body_at:], position, time_ms, True)
        message.expires_ms = expires_ms
        message.explicit_id = explicit
        return message

    def _envelope(self, block: bytes, priority: int, flags: int, address: str) -> Envelope:
        key = (block, priority, flags, address)
        envelope = self._envelopes.get(key)
        if envelope is None:
            if len(self._envelopes) >= self.MAX_ENVELOPES:
                self._envelopes.clear()
            envelope = Envelope(
                address,
                block,
                persistent=not flags & records.TRANSIENT,
                priority=priority,
                options=DeliveryOptions(group=group(block)) if flags & records.GROUPED else None,
            )
            self._envelopes[key] = envelope
        return envelope
