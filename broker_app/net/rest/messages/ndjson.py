"""Messages as lines of JSON: what an export writes and an import reads, in the words of a batch.

What was exported and is imported again is the same message with a new id: headers, bytes of the body,
priority, persistence, group, time of expiry, and the facts of a dead letter. A dedup-id is a header as any.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import UNSET, UnsetType

from broker_app.base.refused import Refused
from broker_app.core.message import DeliveryOptions, Envelope, Message
from broker_app.core.storage import dead_letter_headers
from broker_app.net.http.large_body import Piece, parts
from broker_app.net.http.limits import RestLimits
from broker_app.net.http.replies import encode
from broker_app.net.http.requests import decode
from broker_app.net.rest.messages import message_json
from broker_app.net.rest.messages.envelopes import Envelopes, Item

_NOTHING_SPECIAL = DeliveryOptions()


class NdjsonLine(Item, forbid_unknown_fields=True):
    """One message. `id` and `time` are those it had when it was exported; an import gives new ones."""

    id: str | UnsetType = UNSET
    time: str | UnsetType = UNSET
    expires: int | UnsetType = UNSET  # ms since 1970


class MessageLines:
    """Writes and reads lines."""

    def __init__(self, limits: RestLimits) -> None:
        self._envelopes = Envelopes(limits)
        self._blocks = message_json.Blocks()

    def write(self, message: Message, message_id: bytes) -> Iterator[bytes]:
        """The parts of one line, with its end."""
        envelope = message.envelope
        facts = self._blocks.facts(envelope.block)
        fields = facts.fields
        members: dict[str, object] = {
            "id": message_id.decode(),
            "time": message_json.rfc3339(message.time_ms).decode(),
            "priority": envelope.priority,
            "persistent": envelope.persistent,
            "expires": message.expires_ms or None,
            "content_type": facts.content_type,
            "type": fields.get("type"),
            "correlation_id": fields.get("correlation-id"),
            "reply_to": fields.get("reply-to"),
            "traceparent": fields.get("traceparent"),
            "tracestate": fields.get("tracestate"),
            "headers": facts.headers or None,
        }
        shown = {name: value for name, value in members.items() if value is not None}
        return parts([encode(shown)[:-1] + b",", *_body(message.body, facts.content_type), b"}\n"])

    def read(self, address: str, line: bytes) -> tuple[Envelope, bytes]:
        """Envelope and body of a message to `address`. Raises Refused."""
        try:
            item = decode(line, NdjsonLine)
            headers = item.headers or {}
            dead = {name: headers.pop(name) for name in dead_letter_headers.FACTS if name in headers}
            was_exported = not isinstance(item.id, UnsetType)
            of_item = self._envelopes.of_exported if was_exported else self._envelopes.of_item
            envelope, body = of_item(address, item), item.content()
        except Refused as refusal:
            raise Refused(refusal.code, refusal.detail) from None
        if envelope.options is not None and envelope.options._replace(group="") != _NOTHING_SPECIAL:
            raise Refused(
                "invalid",
                "an import publishes at once and each line once: leave delays, dedup_id and resent out",
            )
        expires_ms = 0 if isinstance(item.expires, UnsetType) else item.expires
        if dead or expires_ms:
            envelope = Envelope(
                address,
                envelope.block + dead_letter_headers.lines(dead),
                persistent=envelope.persistent,
                priority=envelope.priority,
                ttl_ms=envelope.ttl_ms,
                expires_ms=expires_ms or envelope.expires_ms,
                options=envelope.options,
            )
        return envelope, body


def _body(body: bytes, content_type: str | None) -> list[Piece]:
    """A body as it can be read, where reading it back gives the same bytes; else base64."""
    pieces = message_json.body_pieces(body, content_type)
    is_raw = pieces[0] == message_json.RAW
    if content_type is None or (is_raw and (b"\n" in body or b"\r" in body)):
        return message_json.body_pieces(body, "application/octet-stream")
    return pieces
