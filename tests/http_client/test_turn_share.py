"""Answers that come at once are parsed in several turns of the loop, however many connections have one."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from broker_app.peers.http_client import turn_share
from broker_app.peers.http_client.connection import HttpConnection
from broker_app.peers.http_client.turn_share import TurnShare
from tests.http_client.test_large_requests import ANSWER, Transport
from tests.support.loop_turns import loop_turns

CONNECTIONS = 100


async def test_of_many_answers_that_come_at_once_a_few_are_parsed_in_a_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(turn_share, "TURN_S", 0.0)  # the first piece of a turn takes all of its share
    share, parsed = TurnShare(), Counter[int]()
    async with loop_turns() as turns:

        async def exchange() -> None:
            connection = HttpConnection(share, lambda _: None)
            connection.connection_made(Transport(turns))
            sending = asyncio.create_task(connection.send(b"POST / HTTP/1.1\r\n\r\n", b""))
            await asyncio.sleep(0)
            connection.get_buffer(-1)[: len(ANSWER)] = ANSWER
            connection.buffer_updated(len(ANSWER))
            answer, _ = await sending
            assert answer.status == 204
            parsed[turns.number] += 1

        await asyncio.gather(*[exchange() for _ in range(CONNECTIONS)])
    assert len(parsed) > 10, parsed
