"""However the bytes are cut, and whichever path reads them, the frames are the same."""

import itertools
import re
from collections.abc import Iterable
from typing import Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mom_client.stomp import AckRun, Frame, Headers, Limits, Malformed, Parser, ReceiptRun, encode
from mom_client.stomp.frame import ACK, BEGIN, MESSAGE, RECEIPT, SEND, SUBSCRIBE
from tests.support.chance import rounds

SMALL = Limits(max_header_bytes=400, max_headers=6, max_header_line=60, max_command=12, max_body=50)
#: Room for the hot path, which stays well under the limits.
MEDIUM = Limits(max_header_bytes=2000, max_headers=6, max_header_line=60, max_command=12, max_body=50)
Role = Literal["server", "client"]
ROLES: list[Role] = ["server", "client"]

text = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=8)
word = st.sampled_from(["a", "b", "receipt", "content-type", "destination", "transaction"]) | text.filter(len)
receipts = st.none() | st.sampled_from(["1", "r-2", "x:y", "ä", "a\\b", "", "z" * 70])


@st.composite
def well_formed(draw: st.DrawFn, version: str) -> bytes:
    """A SEND, ACK, SUBSCRIBE, … of a client or the MESSAGE, RECEIPT, … of a server."""
    command = draw(st.sampled_from([SEND, SEND, SEND, ACK, SUBSCRIBE, BEGIN, MESSAGE, RECEIPT]))
    headers = draw(st.lists(st.tuples(word, text), max_size=3))
    receipt = draw(receipts)
    if receipt is not None:
        headers.insert(draw(st.integers(0, len(headers))), ("receipt", receipt))
    body = draw(st.binary(max_size=20)) if command in (SEND, MESSAGE) else b""
    with_length = b"\0" in body or draw(st.booleans())
    return encode(command, headers, body, version=version, content_length=with_length)


#: Few distinct frames, repeated: what the hot path lives on.
repeated = st.lists(
    st.builds(
        lambda receipt, body, length: b"SEND\ndestination:/queue/a\n%b%b\n%b\0"
        % (receipt, b"content-length:%d\n" % len(body) if length else b"", body),
        st.sampled_from(
            [
                b"", b"receipt:1\n", b"receipt:r-22\n", b"receipt:\n", b"receipt:a\\c\n", b"receipt:\xff\n",
                b"receipt:a\r\n", b"receipt:\0\n", b"receipt:1\nreceipt:2\n", b"receipt:\\x\n", b"x:1\nreceipt:3\n",
                b"receipt:" + b"y" * 53 + b"\n",
            ]
        ),
        st.sampled_from([b"abc", b"abc", b"\n\n", b"", b"x" * 50, b"y" * 51]),
        st.booleans(),
    ),
    min_size=2,
    max_size=12,
).map(b"".join)  # fmt: skip

fragment = st.sampled_from(
    [
        b"SEND\n",
        b"SEND\r\n",
        b"ACK\nid:1\n\n\0",
        b"ACK\nid:",
        b"id:2\n",
        b"destination:/queue/a\n",
        b"a:b\r\n",
        b"\n",
        b"\r\n",
        b"\r",
        b"\0",
        b"content-length:3\n",
        b"content-length:-1\n",
        b"content-length:99999999999999999999\n",
        b"content-length:0003\n",
        b"content-length:x\n",
        b"receipt:7\n",
        b"abc",
        b"\\",
        b":",
        b"\xff",
        b"MESSAGE\n",
        b"RECEIPT\nreceipt-id:1\n\n\0",
        b"GET / HTTP/1.1\r\n",
        b"x" * 70,
        b"h:1\n",
    ]
)
broken = st.lists(fragment, max_size=14).map(b"".join) | st.binary(max_size=60)


def plain(items: Iterable[Frame | AckRun | Malformed]) -> list[Frame | Malformed]:
    """Runs taken apart into the frames they stand for."""
    frames: list[Frame | Malformed] = []
    for item in items:
        if isinstance(item, ReceiptRun):
            frames += [Frame(RECEIPT, Headers({"receipt-id": id.decode()})) for id in item.ids]
        elif isinstance(item, AckRun):
            frames += [Frame(ACK, Headers({"id": id.decode()})) for id in item.ids]
        elif isinstance(item, Malformed):
            # How much of what is too large was seen depends on the piece it came in.
            frames.append(Malformed(item.code, re.sub(r"at least \d+", "at least …", item.detail)))
        else:
            frames.append(item)
    return frames


def in_pieces(parser: Parser, stream: bytes, cuts: list[int]) -> list[Frame | Malformed]:
    edges = [0, *sorted(cut % (len(stream) + 1) for cut in cuts), len(stream)]
    pieces = [stream[start:stop] for start, stop in itertools.pairwise(edges)]
    return plain(item for piece in pieces for item in parser.receive(piece))


@st.composite
def streams(draw: st.DrawFn) -> tuple[str, bytes]:
    version = draw(st.sampled_from(["1.2", "1.2", "1.1", "1.0"]))
    parts = st.lists(well_formed(version) | repeated | broken, min_size=1, max_size=4)
    return version, b"".join(draw(parts)) * draw(st.sampled_from([1, 1, 2, 3]))


@pytest.mark.slow
@pytest.mark.parametrize("role", ROLES)
@given(streams(), st.lists(st.integers(0, 4000), max_size=8), st.sampled_from([SMALL, MEDIUM, Limits()]))
@settings(max_examples=len(rounds(100, 4_000)))
def test_every_cut_and_both_paths_give_the_same(
    role: Role, stream: tuple[str, bytes], cuts: list[int], limits: Limits
) -> None:
    version, data = stream
    parsers = [
        Parser(limits=limits, role=role, strict=strict) for strict in (True, False, True, False, False)
    ]
    for parser in parsers:
        parser.version = version
    whole = plain(parsers[0].receive(data))
    assert plain(parsers[1].receive(data)) == whole
    assert in_pieces(parsers[2], data, cuts) == whole
    assert in_pieces(parsers[3], data, cuts) == whole
    assert in_pieces(parsers[4], data, list(range(len(data)))) == whole
    assert len({parser.has_partial for parser in parsers}) == 1
