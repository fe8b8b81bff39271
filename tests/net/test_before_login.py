"""Clients that are not known yet: one short operation or frame, and nothing else is worked on."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator

import pytest

from tests.net.test_json_session import JsonClient, opened
from tests.net.test_websocket import CONNECT, Conversation
from tests.support.small_broker import PASSWORD, SmallBroker, small_broker

LOGIN = json.dumps({"op": "login", "login": "anna", "passcode": PASSWORD})


@pytest.fixture
async def broker() -> AsyncIterator[SmallBroker]:
    async with small_broker() as running:
        yield running


async def stranger(broker: SmallBroker) -> JsonClient:
    client = JsonClient(broker)
    await client.conversation.event()
    return client


# ---------------------------------------------------------------------- JSON


@pytest.mark.parametrize(
    ("message", "problem", "code"),
    [
        ("{}" * 100_000, "invalid", 1002),
        ('{"op":"logn"}' * 2, "invalid", 1002),
        ('{"op":"login","nonsense":1}', "invalid", 1002),
        ('{"op":"login","token":"' + "x" * 4096 + '"}', "invalid", 1002),
        ('{"op":"ping"}' * 2, "not-authenticated", 1008),
    ],
    ids=["many objects", "an unknown operation", "an unknown member", "a long operation", "not a login"],
)
async def test_one_wrong_operation_ends_the_connection_of_a_stranger(
    broker: SmallBroker, message: str, problem: str, code: int
) -> None:
    client = await stranger(broker)
    client.conversation.send(message)
    reason, closed = await client.closed()
    assert (reason["type"], closed) == (f"/docs/problems/{problem}", code)
    assert client.events == [], "nothing else was answered"


async def test_a_message_of_a_stranger_costs_little_however_much_is_in_it(broker: SmallBroker) -> None:
    client = await stranger(broker)
    began = time.process_time()
    client.conversation.send("{}" * 128 * 1024)
    await client.closed()
    assert time.process_time() - began < 0.2


async def test_what_comes_behind_a_login_waits_for_it(broker: SmallBroker) -> None:
    client = await stranger(broker)
    client.conversation.send(LOGIN + '{"op":"ping","ref":"%s"}' % ("r" * 64) * 100)
    assert (await client.event("ready"))["user"] == "anna"
    assert [(await client.event("done"))["ref"][:1] for _ in range(100)] == ["r"] * 100


async def test_a_known_client_may_send_longer_operations(broker: SmallBroker) -> None:
    client = await opened(broker)
    answer = await client.ask("ack", receipt="r" * 10_000)
    assert answer["op"] == "problem"
    assert (await client.ask("ping"))["op"] == "done"


# ---------------------------------------------------------------------- STOMP


def connect(size: int) -> bytes:
    """A CONNECT whose head has so many bytes."""
    head = CONNECT.removesuffix(b"\n\n\0") + b"\nx:"
    return head + b"x" * (size - len(head)) + b"\n\n\0"


async def test_a_connect_may_have_a_long_token_and_no_more(broker: SmallBroker) -> None:
    client = await broker.stranger()
    assert (await client.ask(connect(8192))).startswith(b"CONNECTED")
    client = await broker.stranger()
    client.send(connect(8193))
    answer = await client.ended()
    assert answer.count(b"ERROR\n") == 1
    assert b"/docs/problems/too-large" in answer


async def test_the_headers_of_a_known_client_may_be_longer(broker: SmallBroker) -> None:
    client = await broker.client()
    answer = await client.ask(b"SEND\ndestination:/queue/a\nreceipt:1\nx:" + b"x" * 20_000 + b"\n\nbody\0")
    assert answer.startswith(b"RECEIPT\nreceipt-id:1\n")


@pytest.mark.parametrize(
    "frame",
    [b"SEND\ndestination:/queue/a\n\nx\0", b"ACK\nid:1\n\n\0", b"BEGIN\ntransaction:t\n\n\0"],
    ids=["SEND", "ACK", "BEGIN"],
)
async def test_a_frame_before_connect_gets_one_error_whatever_follows(
    broker: SmallBroker, frame: bytes
) -> None:
    began = time.process_time()
    client = Conversation(broker)
    await client.event()
    client.send(frame * 50_000)
    answer = await client.data()
    assert answer.startswith(b"ERROR\n") and b"not-connected" in answer
    assert (await client.event())["type"] == "websocket.close"
    assert time.process_time() - began < 0.2


async def test_frames_behind_connect_are_read_in_the_version_that_was_agreed(broker: SmallBroker) -> None:
    client = await broker.stranger()
    client.send(CONNECT.replace(b"accept-version:1.2", b"accept-version:1.0"))
    client.send(b"SEND\ndestination:/queue/a\nreceipt:a\\tb\n\nx\0")
    first, second = await client.frames(2)
    assert first.startswith(b"CONNECTED\n")
    assert second == b"RECEIPT\nreceipt-id:a\\tb\n\n"
