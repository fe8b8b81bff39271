"""Large bodies in JSON, which are encoded while they are sent."""

from __future__ import annotations

import base64
import json
import tracemalloc

import pytest

from broker_app.config import MIB
from broker_app.core.message import Envelope, Message
from broker_app.net.http.large_body import Piece, parts
from broker_app.net.rest.messages import message_json

_BINARY = bytes(range(256)) * (8 * 4096) + b"."
_TEXT = ('ä€😀"\\\n' * 600_000).encode()
_JSON = b'[\r\n"' + b"x" * (8 * MIB) + b'"]'


def pieces_of(body: bytes, content_type: str) -> list[Piece]:
    message = Message(Envelope("/queue/a", b"content-type:%b\n" % content_type.encode()), body, 7, 0, True)
    return message_json.received_pieces(message, b"id", "receipt", 0, message_json.Blocks())


@pytest.mark.parametrize(
    ("body", "content_type", "member", "value"),
    [
        (_BINARY, "image/png", "body_base64", base64.b64encode(_BINARY).decode()),
        (_TEXT, "text/plain", "body", _TEXT.decode()),
        (_TEXT[:-2] + b"\xc3", "text/plain", "body_base64", base64.b64encode(_TEXT[:-2] + b"\xc3").decode()),
        (b"\x80" * (2 * MIB), "text/plain", "body_base64", base64.b64encode(b"\x80" * (2 * MIB)).decode()),
        (_JSON, "application/json", "body", json.loads(_JSON)),
    ],
    ids=["binary", "text", "a character that is cut", "no text", "JSON"],
)
def test_a_large_body_is_what_it_was_and_as_long_as_was_said(
    body: bytes, content_type: str, member: str, value: object
) -> None:
    length = sum(map(len, pieces_of(body, content_type)))
    line = b"".join(parts(pieces_of(body, content_type)))
    assert len(line) == length
    assert json.loads(line)[member] == value
    assert b"\n" not in line and b"\r" not in line


@pytest.mark.parametrize(
    ("body", "content_type"), [(_BINARY, "image/png"), (_TEXT, "text/plain")], ids=["binary", "text"]
)
def test_a_large_body_is_never_in_memory_as_json(body: bytes, content_type: str) -> None:
    tracemalloc.start()
    try:
        for part in parts(pieces_of(body, content_type)):
            assert len(part) <= 4 * MIB
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 8 * MIB


def test_short_pieces_are_sent_together() -> None:
    assert list(parts([b"a", b"b", b"c"])) == [b"abc"]
    assert [len(part) for part in parts([b"a" * 40_000] * 5)] == [80_000, 80_000, 40_000]
