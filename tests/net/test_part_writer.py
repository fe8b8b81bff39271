"""Large data, part by part."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from broker_app.core import commands as c
from broker_app.core.message import Envelope
from broker_app.net.stomp.transports.part_writer import PART, PartWriter
from broker_app.net.stomp.transports.tcp import TcpConnection
from tests.support.awaiting import until
from tests.support.listener import Listener
from tests.support.loop_turns import Turns, loop_turns
from tests.support.small_broker import small_broker

LARGE = bytes(range(256)) * (8 * PART // 256) + b"."


class Transport(asyncio.Transport):
    """Keeps what was written, and the turn in which that was."""

    def __init__(self, turns: Turns) -> None:
        super().__init__()
        self.written: list[tuple[int, bytes]] = []
        self.closed = False
        self._turns = turns

    def write(self, data: Any) -> None:
        assert not self.closed
        self.written.append((self._turns.number, bytes(data)))

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True

    @property
    def data(self) -> bytes:
        return b"".join(part for _, part in self.written)


class Written:
    """A writer over such a transport, and what it reported."""

    def __init__(self, turns: Turns) -> None:
        self.transport = Transport(turns)
        self.reports: list[str] = []
        self.writer = PartWriter(
            self.transport,
            PART,
            lambda: self.reports.append("full"),
            lambda: self.reports.append("free"),
            lambda transport: transport.close(),
        )

    async def until(self, size: int) -> None:
        while len(self.transport.data) < size:
            await asyncio.sleep(0)


async def test_large_data_is_written_in_parts_each_in_a_turn_and_what_follows_behind_it() -> None:
    async with loop_turns() as turns:
        there = Written(turns)
        for data in (b"first", LARGE, b"last"):
            there.writer.write(data)
        assert there.transport.data == b"first" and there.reports == ["full"]
        await there.until(len(LARGE) + 9)
    assert there.transport.data == b"first" + LARGE + b"last"
    assert max(len(part) for _, part in there.transport.written) == PART
    turns_of_parts = [turn for turn, part in there.transport.written if len(part) == PART]
    assert len(set(turns_of_parts)) == len(LARGE) // PART
    assert there.reports == ["full", "free"]


async def test_parts_wait_while_the_transport_has_enough() -> None:
    there = Written(Turns())
    there.writer.write(LARGE)
    await there.until(PART)
    there.writer.pause()
    before = len(there.transport.data)
    for _ in range(20):
        await asyncio.sleep(0)
    assert len(there.transport.data) == before and there.reports == ["full"]
    there.writer.resume()
    await there.until(len(LARGE))
    assert there.reports == ["full", "free"]
    there.writer.pause()
    there.writer.resume()
    assert there.reports == ["full", "free"] * 2


async def test_the_connection_ends_behind_what_was_written() -> None:
    there = Written(Turns())
    there.writer.write(LARGE)
    there.writer.close()
    assert not there.transport.closed
    await there.until(len(LARGE))
    assert there.transport.closed
    idle = Written(Turns())
    idle.writer.close()
    assert idle.transport.closed


async def test_what_waits_for_a_client_that_has_gone_is_dropped() -> None:
    there = Written(Turns())
    there.writer.write(LARGE)
    there.transport.close()
    for _ in range(5):
        await asyncio.sleep(0)
    assert there.transport.data == b"" and there.reports == ["full", "free"]


async def test_of_a_large_message_little_more_than_a_part_is_written_before_its_client_takes_it() -> None:
    large = b"x" * (24 * PART)
    async with small_broker(memory_bytes=64 * PART) as broker:
        client = await broker.client()
        assert await client.ask(b"SUBSCRIBE\nid:1\ndestination:/queue/a\nreceipt:r\n\n\0")
        (session,) = broker.registry.sessions
        connection = session.conversation.transport
        assert isinstance(connection, TcpConnection)
        reading = cast(asyncio.Transport, client.writer.transport)
        reading.pause_reading()
        broker.engine.submit(c.Publish(Listener().peer, [(Envelope("/queue/a", b""), large, None)]))
        await broker.engine.wait_idle()
        await until(lambda: connection._transport.get_write_buffer_size())
        for _ in range(100):
            await asyncio.sleep(0)
        assert connection._transport.get_write_buffer_size() <= 2 * PART
        reading.resume_reading()
        assert (await client.frame()).endswith(large)
