"""Frames to bytes and back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mom_client.stomp import Frame, Parser, convert_block, encode, escape, unescape
from mom_client.stomp import frame as wire
from mom_client.stomp.encode import encode_headers

text = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20)


@given(text, st.sampled_from(["1.1", "1.2"]))
def test_unescape_undoes_escape(value: str, version: str) -> None:
    escaped = escape(value, version)
    assert unescape(escaped, version) == value
    assert "\n" not in escaped
    assert ":" not in escaped


@given(st.dictionaries(text.filter(len), text, max_size=5), st.binary(max_size=50))
def test_encoded_frames_are_parsed_back(headers: dict[str, str], body: bytes) -> None:
    headers = {name: value for name, value in headers.items() if name not in ("receipt", "content-length")}
    (frame,) = Parser().receive(encode(wire.SEND, headers, body))
    assert isinstance(frame, Frame)
    assert (list(frame.headers.items()), frame.body) == (list(headers.items()), body)


def test_the_bytes() -> None:
    assert encode(wire.SEND, {"a": "b"}, b"x") == b"SEND\na:b\ncontent-length:1\n\nx\0"
    assert encode(wire.SEND, {"a": "b"}, b"x", content_length=False) == b"SEND\na:b\n\nx\0"
    assert encode(wire.SEND, [("a", "1"), ("a", "2")]) == b"SEND\na:1\na:2\ncontent-length:0\n\n\0"
    assert encode(wire.ACK, {"id": "1:2"}) == b"ACK\nid:1\\c2\n\n\0"
    assert encode(wire.ACK, {"id": "1:2\r"}, version="1.1") == b"ACK\nid:1\\c2\r\n\n\0"
    assert encode(wire.ACK, {"i:d": "1:2\\\n"}, version="1.0") == b"ACK\ni\\cd:1:2\\\\n\n\n\0"
    assert encode(wire.CONNECT, {"passcode": "a:b\\c"}) == b"CONNECT\npasscode:a:b\\c\n\n\0"


def test_a_nul_needs_its_length() -> None:
    with pytest.raises(ValueError, match="content-length"):
        encode(wire.SEND, {}, b"a\0b", content_length=False)


@pytest.mark.parametrize(
    "header", [("pass\ncode", "x"), ("passcode", "x\ny"), ("pass:code", "x"), ("a", "b\0c")]
)
def test_connect_cannot_carry_everything(header: tuple[str, str]) -> None:
    with pytest.raises(ValueError, match="control character"):
        encode(wire.CONNECT, [header])


@given(st.lists(st.tuples(text.filter(len), text), max_size=4))
def test_a_block_converted_is_a_block_encoded(headers: list[tuple[str, str]]) -> None:
    block = encode_headers(headers)
    for version in ("1.1", "1.2"):
        assert convert_block(block, version) == encode_headers(headers, version)


def test_a_block_for_1_0() -> None:
    block = encode_headers([("a:b", "c:d\\e\nf")])
    assert convert_block(block, "1.0") == b"a\\cb:c:d\\e\\nf\n"
