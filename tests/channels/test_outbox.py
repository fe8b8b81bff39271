"""The frames that a link has to send, and large calls put together again, without brokers."""

from __future__ import annotations

import asyncio
import random
import socket
from typing import cast

import pytest
import uvloop

from broker_app.base.refused import Refused
from broker_app.features.cluster.links import frames as f
from broker_app.features.cluster.links.outbox import PIECE_BYTES, WINDOW_PIECES, Assembly, Outbox

WINDOW_BYTES = PIECE_BYTES * WINDOW_PIECES
MOST_BYTES = 64 * f.MIB


class Wire:
    """A connection on which the other side reads what was written when it is asked to."""

    def __init__(self) -> None:
        self._reader = f.Reader(MOST_BYTES)
        self._assembly = Assembly(MOST_BYTES)
        self.outbox = Outbox()
        self.outbox.open(cast(asyncio.Transport, self))
        self.received: list[f.ChannelCall | f.ChannelAnswer] = []
        #: bytes of each write
        self.writes: list[int] = []

    def write(self, data: bytes) -> None:
        self.writes.append(len(data))
        self._reader.add(data)

    def get_write_buffer_size(self) -> int:
        return 0

    def is_closing(self) -> bool:
        return False

    def read(self) -> int:
        """Take all frames; returns the credit that the sender gets for it."""
        self.outbox.flush()
        for frame in self._reader:
            match frame:
                case f.ChannelPiece(piece):
                    whole = self._assembly.take(piece)
                    if whole is not None and not isinstance(whole, f.Page):
                        self.received.append(whole)
                case f.ChannelCall() | f.ChannelAnswer() if frame.size:
                    self._assembly.begin(frame)
                case f.ChannelCall() | f.ChannelAnswer():
                    self.received.append(frame)
        return self._assembly.credit()

    def read_all(self) -> None:
        """Take frames and give credit until nothing comes."""
        while credit := self.read():
            self.outbox.add_credit(credit)


def a_call(number: int, size: int) -> f.ChannelCall:
    """A request whose body shows its number."""
    return f.ChannelCall(number, 1_000, False, None, bytes([number % 251]) * size)


async def test_frames_of_a_turn_are_one_write_and_a_long_one_is_not_copied_to_be_with_them() -> None:
    wire = Wire()
    ping, long = f.Ping(1), f.Deliver([], [f.RemoteDelivery(1, 1, 0, 0, 1, 0, b"id", bytes(f.MIB))])
    for frame in (ping, ping, ping, long, ping):
        wire.outbox.send(frame)
    wire.outbox.flush()
    assert wire.writes == [3 * len(f.encode(ping)), len(f.encode(long)), len(f.encode(ping))]


async def test_a_large_call_behind_one_that_used_up_the_window_begins_once() -> None:
    wire = Wire()
    for number in (1, 2):
        assert wire.outbox.send_call(a_call(number, WINDOW_BYTES))
    wire.read_all()
    assert [call.body for call in wire.received] == [a_call(number, WINDOW_BYTES).body for number in (1, 2)]


async def test_calls_of_any_size_arrive_whole_and_in_order() -> None:
    chance = random.Random(7)
    wire = Wire()
    sent = [
        a_call(number, chance.choice((0, 1, PIECE_BYTES, chance.randrange(700_000)))) for number in range(60)
    ]
    for call in sent:
        assert wire.outbox.send_call(call)
        if not call.number % 7 and (credit := wire.read()):
            wire.outbox.add_credit(credit)
    wire.read_all()
    assert [(call.number, call.body) for call in wire.received] == [(call.number, call.body) for call in sent]


async def test_calls_are_taken_while_one_of_the_largest_crosses() -> None:
    wire = Wire()
    assert wire.outbox.send_call(a_call(1, MOST_BYTES))
    assert wire.outbox.send_call(a_call(2, 10))
    wire.read_all()
    assert [len(call.body) for call in wire.received] == [MOST_BYTES, 10]


async def test_calls_behind_one_that_does_not_cross_are_refused_when_they_are_too_many() -> None:
    wire = Wire()
    assert wire.outbox.send_call(a_call(1, 2 * WINDOW_BYTES))
    taken = 0
    while wire.outbox.send_call(a_call(2, f.MIB)):
        taken += 1
    assert 32 <= taken <= 33


async def test_a_call_that_is_larger_than_allowed_is_refused() -> None:
    begin = f.without_body(a_call(1, 10))
    begin.size = MOST_BYTES + 1
    with pytest.raises(Refused, match="protocol-error"):
        Assembly(MOST_BYTES).begin(begin)


async def test_a_piece_beyond_the_end_of_its_call_is_refused() -> None:
    assembly = Assembly(MOST_BYTES)
    assembly.begin(f.without_body(a_call(1, 10)))
    with pytest.raises(Refused, match="protocol-error"):
        assembly.take(b"12345678901")


def test_frames_that_gathered_before_the_connection_ended_are_dropped() -> None:
    async def end_before_the_write() -> None:
        here, there = socket.socketpair()
        with there:
            transport, _ = await asyncio.get_running_loop().create_connection(asyncio.Protocol, sock=here)
            outbox = Outbox()
            outbox.open(transport)
            transport.abort()
            await asyncio.sleep(0)
            outbox.send(f.Ping(1))
            outbox.flush()

    uvloop.run(end_before_the_write())


class EndedTransport(asyncio.Transport):
    """One of uvloop whose socket is closed, before its protocol was called."""

    def is_closing(self) -> bool:
        return False

    def get_write_buffer_size(self) -> int:
        return 0

    def write(self, data: bytes | bytearray | memoryview) -> None:
        raise RuntimeError("unable to perform operation on <TCPTransport closed=True>; the handler is closed")


async def test_frames_are_dropped_if_the_socket_is_closed_before_the_connection_says_so() -> None:
    outbox = Outbox()
    outbox.open(EndedTransport())
    outbox.send(f.Ping(1))
    outbox.flush()
    assert outbox.waiting == 0
