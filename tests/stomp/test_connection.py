"""The client's conversation, without I/O."""

import pytest

from mom_client.stomp import Frame, Headers, Malformed, ReceiptRun, encode
from mom_client.stomp import frame as wire
from mom_client.stomp.connection import Connection, State

CONNECTED = encode(wire.CONNECTED, {"version": "1.2", "heart-beat": "0,0"})


def connected(**headers: str) -> Connection:
    connection = Connection()
    connection.connect({"host": "/"}, 0.0)
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    (frame,) = connection.receive(encode(wire.CONNECTED, {"version": "1.2", **named}), 0.0)
    assert isinstance(frame, Frame)
    return connection


def test_the_greeting() -> None:
    connection = Connection(versions=["1.1", "1.2"], heart_beat_s=(5, 0))
    assert connection.connect({"host": "h", "passcode": "a:b"}, 0.0) == (
        b"CONNECT\naccept-version:1.1,1.2\nheart-beat:5000,0\nhost:h\npasscode:a:b\n\n\0"
    )
    assert connection.state is State.CONNECTING


def test_the_version_governs_what_follows_in_the_same_bytes() -> None:
    connection = Connection()
    connection.connect({}, 0.0)
    data = encode(wire.CONNECTED, {"version": "1.0"}) + b"MESSAGE\nx:a\\nb\n\n\0"
    first, second = connection.receive(b"\n" + data, 0.0)
    assert isinstance(first, Frame)
    assert isinstance(second, Frame)
    assert second.headers == {"x": "a\\nb"}
    assert connection.version == "1.0"


def test_connected_may_come_in_pieces() -> None:
    connection = Connection()
    connection.connect({}, 0.0)
    items = [item for byte in CONNECTED for item in connection.receive(bytes([byte]), 0.0)]
    assert len(items) == 1
    assert connection.state is State.CONNECTED


@pytest.mark.parametrize(
    ("headers", "detail"),
    [
        ({"version": "9"}, "chose version '9'"),
        ({"version": "1.2", "heart-beat": "x"}, "heart-beat is 'x'"),
        ({"version": "1.2", "heart-beat": "1,-1"}, "heart-beat is '1,-1'"),
    ],
)
def test_a_strange_welcome(headers: dict[str, str], detail: str) -> None:
    connection = Connection()
    connection.connect({}, 0.0)
    (malformed,) = connection.receive(encode(wire.CONNECTED, headers), 0.0)
    assert isinstance(malformed, Malformed)
    assert detail in malformed.detail
    assert connection.state is State.CLOSED


@pytest.mark.parametrize("data", [encode(wire.MESSAGE), b"RECEIPT\nreceipt-id:1\n\n\0"])
def test_nothing_comes_before_connected(data: bytes) -> None:
    connection = Connection()
    connection.connect({}, 0.0)
    (malformed,) = connection.receive(data, 0.0)
    assert isinstance(malformed, Malformed)
    assert "came while connecting" in malformed.detail


def test_connected_comes_once() -> None:
    connection = connected()
    *_, malformed = connection.receive(encode(wire.MESSAGE) + CONNECTED, 0.0)
    assert malformed == Malformed("malformed-frame", "CONNECTED came while connected")


def test_an_error_is_the_end() -> None:
    connection = connected()
    connection.receive(encode(wire.ERROR, {"message": "no"}, b"x"), 0.0)
    assert connection.state is State.CLOSED
    (malformed,) = connection.receive(encode(wire.MESSAGE), 0.0)
    assert isinstance(malformed, Malformed)


def test_leaving() -> None:
    connection = connected()
    assert connection.disconnect("7") == b"DISCONNECT\nreceipt:7\n\n\0"
    assert connection.state is State.CLOSING
    assert connection.receive(b"RECEIPT\nreceipt-id:7\n\n\0", 0.0) == [ReceiptRun([b"7"])]


@pytest.mark.parametrize(
    ("version", "ack", "nack"),
    [
        ("1.2", b"ACK\nid:a\\c1\n\n\0", b"NACK\nid:a\\c1\nrequeue:false\nx:y\n\n\0"),
        (
            "1.1",
            b"ACK\nmessage-id:m\nsubscription:s\n\n\0",
            b"NACK\nmessage-id:m\nsubscription:s\nrequeue:false\nx:y\n\n\0",
        ),
    ],
)
def test_settling_is_of_the_version(version: str, ack: bytes, nack: bytes) -> None:
    connection = connected(version=version)
    message = Frame(wire.MESSAGE, Headers({"ack": "a:1", "message-id": "m", "subscription": "s"}))
    assert connection.settle(message, None, {}) == ack
    assert connection.settle(message, False, {"x": "y"}) == nack


def test_heart_beats() -> None:
    connection = Connection(heart_beat_s=(10, 4))
    connection.connect({}, 100.0)
    connection.receive(encode(wire.CONNECTED, {"version": "1.2", "heart-beat": "6000,2000"}), 101.0)
    assert connection.heart_beat_due() == 105.0  # half of the 10 s: a beat may be late and still in time
    assert connection.timeout_at() == 113.0  # twice the 6 s
    connection.on_sent(104.0)
    assert connection.heart_beat_due() == 109.0
    connection.receive(b"\n", 112.0)
    assert connection.timeout_at() == 124.0


def test_no_heart_beats() -> None:
    connection = connected(heart_beat="0,0")
    assert (connection.heart_beat_due(), connection.timeout_at()) == (None, None)
