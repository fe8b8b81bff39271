"""Single messages over a real HTTP connection: the fast path answers as the full one does."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest

from broker_app.config import Config
from broker_app.net.policy.policy import UserFacts
from broker_app.net.rest.messages.fast_publish import Caller
from broker_app.net.server.listeners import listen
from broker_app.net.server.serve import serve
from tests.rest.conftest import Rest, policy
from tests.support.patience import patient

ALICE = "authorization: Bearer mom_alice\r\n"
PATH = "/api/v1/queues/a/messages"


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: Any


class Wire:
    """One keep-alive connection to a REST API that uvicorn serves."""

    def __init__(self, rest: Rest, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.rest = rest
        self.reader = reader
        self.writer = writer

    def write(self, body: str, headers: str = ALICE, path: str = PATH) -> None:
        self.writer.write(post(body, headers, path))

    async def answer(self) -> Answer:
        async with asyncio.timeout(patient(10)):
            head = (await self.reader.readuntil(b"\r\n\r\n")).decode()
            status, *lines = head.rstrip().split("\r\n")
            headers = dict(line.split(": ", 1) for line in lines)
            body = await self.reader.readexactly(int(headers["content-length"]))
        return Answer(int(status.split()[1]), headers, json.loads(body) if body else None)

    async def post(self, body: str, headers: str = ALICE, path: str = PATH) -> Answer:
        self.write(body, headers, path)
        return await self.answer()

    async def bodies(self) -> list[str]:
        return [item["body"] for item in await self.rest.receive("a", max=100)]


def post(body: str, headers: str = ALICE, path: str = PATH) -> bytes:
    text = f"content-type: text/plain\r\ncontent-length: {len(body)}\r\n"
    return f"POST {path} HTTP/1.1\r\nhost: localhost\r\n{headers}{text}\r\n{body}".encode()


@pytest.fixture
async def wire(rest: Rest) -> AsyncIterator[Wire]:
    stop = asyncio.Event()
    listener = listen("127.0.0.1", 0)
    port = listener.getsockname()[1]
    config = Config(drain=1, connect_timeout=1)
    serving = asyncio.create_task(serve(rest.rest_api, config, listener, stop, rest.rest_api.direct))
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    yield Wire(rest, reader, writer)
    writer.close()
    stop.set()
    await serving


async def test_both_ways_give_the_same_answer(wire: Wire) -> None:
    trace = "traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\r\n"
    short, long = await wire.post("one"), await wire.post("two", ALICE + trace)
    assert (short.status, long.status) == (201, 201)
    assert short.headers.keys() == long.headers.keys() - {"traceparent"}
    assert short.body.keys() == long.body.keys()
    assert [answer.body["seq"] for answer in (short, long)] == [1, 2]
    assert short.headers["location"] == f"/api/v1/messages/{short.body['id']}?queue=a"
    assert await wire.bodies() == ["one", "two"]


async def test_pipelined_requests_are_answered_in_order_whatever_way_they_go(wire: Wire) -> None:
    limits = b"GET /api/v1/limits HTTP/1.1\r\nhost: localhost\r\n" + ALICE.encode() + b"\r\n"
    wire.writer.write(post("1") + post("2") + limits + post("3") + limits + post("4"))
    answers = [await wire.answer() for _ in range(6)]
    assert [answer.body.get("seq") for answer in answers] == [1, 2, None, 3, None, 4]
    assert await wire.bodies() == ["1", "2", "3", "4"]


async def test_a_request_may_come_in_any_pieces(wire: Wire) -> None:
    data = post("some text") + post("more") + post("")
    for at in range(0, len(data), 7):
        wire.writer.write(data[at : at + 7])
        await wire.writer.drain()
        await asyncio.sleep(0)
    assert [(await wire.answer()).status for _ in range(3)] == [201, 201, 201]
    assert await wire.bodies() == ["some text", "more", ""]


@pytest.mark.parametrize(
    ("headers", "path", "status", "problem"),
    [
        ("", PATH, 401, "not-authenticated"),
        ("authorization: Bearer x\r\n", PATH, 401, "not-authenticated"),
        (ALICE + "mom-priority: 11\r\n", PATH, 400, "invalid"),
        (ALICE, "/api/v1/queues/%20a/messages", 400, "bad-destination"),
        (ALICE, "/api/v1/queues/a/purge", 405, "method-not-allowed"),
        (ALICE + "content-encoding: gzip\r\n", PATH, 415, "unsupported-type"),
    ],
)
async def test_a_wrong_request_gets_its_problem_and_the_connection_stays_open(
    wire: Wire, headers: str, path: str, status: int, problem: str
) -> None:
    assert (await wire.post("before")).status == 201
    refused = await wire.post("wrong", headers, path)
    assert (refused.status, refused.body["type"]) == (status, f"/docs/problems/{problem}")
    assert (await wire.post("after")).status == 201
    assert await wire.bodies() == ["before", "after"]


async def test_a_caller_is_known_by_the_password_too_once_it_was_checked(wire: Wire) -> None:
    basic = "authorization: Basic YWxpY2U6YWxpY2U=\r\n"
    assert [(await wire.post(body, basic)).status for body in "123"] == [201, 201, 201]


async def test_a_user_who_is_gone_is_refused_at_the_next_request(wire: Wire) -> None:
    assert (await wire.post("1")).status == 201
    known = policy()
    wire.rest.logins.reload(
        type(known)(version=1, users=MappingProxyType({"bob": UserFacts("bob", "bob")}), tokens=known.tokens)
    )
    assert (await wire.post("2")).status == 401


async def test_another_user_on_the_same_connection_is_not_taken_for_the_first(wire: Wire) -> None:
    assert (await wire.post("1")).status == 201
    assert (await wire.post("2", "authorization: Bearer nobody\r\n")).status == 401


async def test_a_requested_close_of_the_connection_follows_the_response(wire: Wire) -> None:
    assert (await wire.post("1", ALICE + "connection: close\r\n")).headers["connection"] == "close"
    assert await wire.reader.read() == b""


async def test_a_body_that_does_not_come_is_not_waited_for(wire: Wire) -> None:
    wire.writer.write(post("12345")[:-2])
    async with asyncio.timeout(patient(10)):
        assert (await wire.reader.read()).startswith(b"HTTP/1.1 408 ")
    assert wire.rest.depth("a") == 0


async def test_a_failing_engine_answers_waiting_requests(rest: Rest) -> None:
    answers: list[tuple[int, bytes]] = []

    class Connection:
        caller: Caller | None = None
        client = ("127.0.0.1", 50_000)
        scheme = "http"

        def answer(self, reply: Any, own: Any) -> None:
            answers.append((reply.status, reply.body))

    headers = [(b"authorization", b"Bearer mom_alice"), (b"content-length", b"1")]
    assert rest.rest_api.direct.take(Connection(), PATH.encode(), headers, b"x")
    rest.rest_api.engine_ended(OSError("no space"))
    assert [status for status, _ in answers] == [503]
    assert b"store-unavailable" in answers[0][1]


async def test_a_client_that_disconnects_before_its_response_affects_no_other(wire: Wire) -> None:
    wire.write("last words")
    await wire.writer.drain()
    wire.writer.close()
    await wire.rest.until(lambda: wire.rest.depth("a") == 1)
