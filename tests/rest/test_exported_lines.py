"""An import reads what an export writes as the same message, whatever headers it was sent with."""

from __future__ import annotations

import pytest

from broker_app.base.refused import Refused
from broker_app.core.destination import parse
from broker_app.core.message import Envelope, Message, group_of
from broker_app.core.storage import dead_letter_headers
from broker_app.net.http.limits import RestLimits
from broker_app.net.rest.messages import envelopes, message_json
from broker_app.net.rest.messages.ndjson import MessageLines
from broker_app.net.stomp import headers, scheduling_headers

Q = "/queue/a"
#: every header that a part of the broker knows, and some that none does
NAMES = sorted(
    {"x", "größe", "a:b", "content-encoding", *dead_letter_headers.FACTS}
    | set(message_json._FIELDS)
    | set(scheduling_headers.NAMES)
    | set(envelopes._RESERVED)
)
#: members that are not to be the same: how the block is written, and what is cached
NOT_COMPARED = {"block", "overhead_bytes", "options", "tail", "tail_key", "ttl_ms", "expires_ms"}


def sent(name: str) -> Envelope:
    """The envelope of a message that was sent with this header."""
    for value in ("7", "true", "t: e\\x\nt"):
        try:
            return headers.envelope({name: value}, parse(Q))
        except Refused as refusal:
            if refusal.code == "unsupported":
                break
    return headers.envelope({}, parse(Q))


def read_back(message: Message) -> Envelope:
    lines = MessageLines(RestLimits())
    envelope, body = lines.read(Q, b"".join(lines.write(message, b"an id")))
    assert body == message.body
    return envelope


@pytest.mark.parametrize("name", NAMES)
def test_a_message_with_any_header_is_read_as_it_was(name: str) -> None:
    message = Message(sent(name), b"body", 1, 1_800_000_000_000, True)
    envelope = read_back(message)
    blocks = message_json.Blocks()
    had, has = blocks.facts(message.envelope.block), blocks.facts(envelope.block)
    assert has.headers == had.headers
    for field in ("type", "correlation-id", "reply-to", "content-type", "traceparent", "tracestate"):
        assert has.fields.get(field) == had.fields.get(field), field
    compared = set(Envelope.__slots__) - NOT_COMPARED
    assert {one: getattr(envelope, one) for one in compared} == {
        one: getattr(message.envelope, one) for one in compared
    }
    again = Message(envelope, b"body", 2, 1_800_000_000_000, True)
    assert group_of(again) == group_of(message)
    assert envelope.options is None or not envelope.options._replace(group="").delay_ms
    assert envelope.options is None or not envelope.options.dedup_id


def test_a_line_that_was_not_exported_cannot_have_headers_of_other_meaning() -> None:
    line = b'{"body": "x", "headers": {"dedup-id": "1"}}'
    with pytest.raises(Refused, match="dedup-id is reserved"):
        MessageLines(RestLimits()).read(Q, line)


@pytest.mark.parametrize("name", ["subscription", "ack", "message-id", "destination", "redelivered"])
def test_no_line_can_forge_a_header_of_the_broker(name: str) -> None:
    line = b'{"id": "1", "body": "x", "headers": {"%b": "forged", "x": "y"}}' % name.encode()
    envelope, _ = MessageLines(RestLimits()).read(Q, line)
    assert b"forged" not in envelope.block
    assert b"x:y" in envelope.block
