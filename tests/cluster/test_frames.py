"""Frames of links: what was sent comes out, and all else is refused, at a cost that grows with its bytes."""

from __future__ import annotations

import time
from random import Random

import pytest

from broker_app.base.refused import Refused
from broker_app.features.cluster.links import frames as f
from tests.support.chance import FIRST_SEED
from tests.support.patience import patient

#: seconds for a MiB, on a quiet machine
_MIB_S = 0.5


def some_frames(random: Random) -> list[f.Frame]:
    envelope = f.SharedEnvelope("/queue/a", b"colour:red\n", True, 4)
    bodies = [random.randbytes(random.choice((0, 10, 1_000))) for _ in range(random.randint(1, 9))]
    messages = [f.RemoteDelivery(1, at, 0, 0, 1, 0, b"id", body) for at, body in enumerate(bodies, 1)]
    return [
        *(f.Hello(b"n" * 32), f.Ping(random.getrandbits(40)), f.Availability(False, 3, ["b2:7676"])),
        *(f.Subscribe(1, "/queue/a", 1, 100, "colour = 'red'"), f.Deliver([envelope], messages)),
        f.Settled([1, 2], [3], [f.Failed(4, "NACKED", "REJECTED", "why")]),
    ]


def pieces(random: Random, data: bytes, most: int) -> list[bytes]:
    found = []
    while data:
        size = random.randint(1, most)
        found.append(data[:size])
        data = data[size:]
    return found


def read(reader: f.Reader, data: bytes | bytearray) -> list[f.Frame]:
    """The frames that are complete with this data."""
    reader.add(data)
    return list(reader)


def test_frames_come_out_as_they_were_sent_however_they_are_cut() -> None:
    random = Random(FIRST_SEED)
    for _ in range(50):
        sent = some_frames(random)
        reader = f.Reader(f.USUAL_BYTES)
        data = b"".join(map(f.encode, sent))
        got = [frame for piece in pieces(random, data, 300) for frame in read(reader, piece)]
        assert got == sent


def test_bytes_that_no_broker_sends_are_refused_or_read_at_a_cost_that_grows_with_them() -> None:
    random, began, total = Random(FIRST_SEED), time.process_time(), 0
    codes = set()
    for _ in range(300):
        data = bytearray(b"".join(map(f.encode, some_frames(random))))
        for _ in range(random.choice((1, 1, 3, 30))):
            at = random.randrange(len(data))
            data[at : at + random.randint(0, 3)] = random.randbytes(random.randint(0, 3))
        total += len(data)
        reader = f.Reader(f.USUAL_BYTES)
        try:
            for piece in pieces(random, bytes(data), 2_000):
                read(reader, piece)
        except Refused as refusal:
            codes.add(refusal.code)
    assert codes == {"protocol-error"}
    assert time.process_time() - began < patient(0.5 + total / f.MIB * _MIB_S)


@pytest.mark.parametrize("most", [1, 100, 65_536])
def test_a_long_frame_costs_as_much_as_its_bytes_in_pieces_of_any_size(most: int) -> None:
    size = f.MIB if most > 1 else 64 * 1024
    envelope = f.SharedEnvelope("/queue/a", b"", True, 4)
    sent = f.Deliver([envelope], [f.RemoteDelivery(1, 1, 0, 0, 1, 0, b"id", bytes(size))])
    data, reader = f.encode(sent), f.Reader(2 * f.MIB)
    got: list[f.Frame] = []
    began = time.process_time()
    for start in range(0, len(data), most):
        got += read(reader, data[start : start + most])
    assert time.process_time() - began < patient(_MIB_S)
    assert got == [sent]


@pytest.mark.parametrize(
    "frame",
    [
        f.Settled([1] * f.MIB),
        f.Deliver([], [f.RemoteDelivery(1, 1, 0, 0, 1, 0, b"id", b"")] * (f.MOST_MESSAGES + 1)),
        f.Subscribe(1, "a" * f.MIB, 1, 1),
    ],
)
def test_a_frame_of_many_parts_is_refused_before_they_are_read(frame: f.Frame) -> None:
    data, reader = f.encode(frame), f.Reader(16 * f.MIB)
    began = time.process_time()
    with pytest.raises(Refused, match="cannot be read"):
        read(reader, data)
    assert time.process_time() - began < patient(0.05)


def test_what_settles_many_deliveries_is_several_frames() -> None:
    acked, failed = list(range(2 * f.MOST_SETTLED + 1)), [f.Failed(1, "")] * (f.MOST_FAILED + 1)
    found = list(f.settled(acked, [], failed))
    assert [tag for frame in found for tag in frame.acked] == acked
    assert [one for frame in found for one in frame.failed] == failed
    reader = f.Reader(f.USUAL_BYTES)
    assert [frame for one in found for frame in read(reader, f.encode(one))] == found


def test_clients_of_other_machines_are_sent_to_no_address_of_loopback() -> None:
    uris, web = ["stomp://127.0.0.1:61613", "ws://localhost:8000/ws"], "http://[::1]:8000"
    known = "stomp+tls://b1.example:61614"
    far = f.Identity("b1", "1", "0.1", "b1.example:7676", [*uris, known], web, {}, [])
    assert (far.client_uris(), far.client_web()) == ([known], "")
    near = f.Identity("b1", "1", "0.1", "127.0.0.1:7676", uris, web, {}, [])
    assert (near.client_uris(), near.client_web()) == (uris, web)
