"""Requests with large bodies."""

from __future__ import annotations

import asyncio

from broker_app.peers.http_client.connection import HttpConnection
from broker_app.peers.http_client.turn_share import TurnShare
from tests.support.loop_turns import Turns, loop_turns

BODY = bytes(4 * 1024 * 1024)
ANSWER = b"HTTP/1.1 204 No Content\r\n\r\n"


class Transport(asyncio.Transport):
    """Takes all at once, and keeps the bytes of each turn of the loop."""

    def __init__(self, turns: Turns) -> None:
        super().__init__()
        self.bytes_of_turns: dict[int, int] = {}
        self._turns = turns

    def write(self, data: bytes | bytearray | memoryview) -> None:
        turn = self._turns.number
        self.bytes_of_turns[turn] = self.bytes_of_turns.get(turn, 0) + len(data)

    def abort(self) -> None:
        """Nothing is open."""


async def test_a_receiver_that_takes_a_large_body_at_once_holds_nothing_up() -> None:
    async with loop_turns() as turns:
        transport, connection = Transport(turns), HttpConnection(TurnShare(), lambda _: None)
        connection.connection_made(transport)
        sending = asyncio.create_task(connection.send(b"POST / HTTP/1.1\r\n\r\n", BODY))
        while sum(transport.bytes_of_turns.values()) < len(BODY):
            await asyncio.sleep(0)
        connection.get_buffer(-1)[: len(ANSWER)] = ANSWER
        connection.buffer_updated(len(ANSWER))
        answer, _ = await sending
    assert answer.status == 204
    assert max(transport.bytes_of_turns.values()) < len(BODY) / 8
