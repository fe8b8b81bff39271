"""Turns PUBLISHED records back into messages."""

from __future__ import annotations

from collections.abc import Sequence

from broker_app.base.large_record import large_body
from broker_app.core.durability import records
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
        return self.messages((record,), (position,))[0]

    def head(self, record: bytes, position: int) -> Message:
        """The same message without its body, which may be large and is not copied."""
        return self.message(records.head_of(record), position)

    def messages(self, found: Sequence[bytes], positions: Sequence[int]) -> list[Message]:
        """The messages of the PUBLISHED records at these positions. A queue that grows has all its messages
        read back, so this is the path of each of them."""
        messages = []
        unpack, sizes, fixed = records.unpack_published, records.OPTIONAL_SIZES, records.PUBLISHED_SIZE
        own, last, envelope = self._address, None, None
        for record, position in zip(found, positions, strict=True):
            _, _, _, flags, priority, _, block_size, time_ms, expires_ms = unpack(record)
            address, block_at = own, fixed + sizes[flags]
            if flags & records.HAS_ADDRESS:
                address, block_at = records.address_of(record, 0, flags), records.block_at(record, 0, flags)
            body_at = block_at + block_size
            key = record[block_at:body_at], priority, flags, address
            if envelope is None or key != last:  # neighbours mostly have the same
                last, envelope = key, self._envelope(*key)
            message = Message(envelope, record[body_at:] or large_body(record), position, time_ms, True)
            message.expires_ms = expires_ms
            if flags & records.HAS_ID:
                message.explicit_id = record[fixed : fixed + records.ID_SIZE]
            messages.append(message)
        return messages

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
