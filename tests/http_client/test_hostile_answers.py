"""Answers without an end, or without an order: each exchange ends with a sentence, and no turn of the loop is
long."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from broker_app.peers.http_client.address_filter import AddressFilter
from broker_app.peers.http_client.client import HttpClient
from broker_app.peers.http_client.exchange import HttpAnswer, HttpRequest, Unanswered
from tests.http_client.stranger import Stranger, stranger
from tests.support.loop_turns import Turns, loop_turns

#: exchanges with one stranger at the same time
TOGETHER = 20
#: seconds of processor time that a turn of the loop may take, whatever comes
LONGEST_TURN_S = 0.05
OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
EARLY = b"HTTP/1.1 103 Early Hints\r\n\r\n"
TOO_MANY_LINES = "PROTOCOL: its answer has more than 256 header lines"


@contextlib.asynccontextmanager
async def client() -> AsyncIterator[HttpClient]:
    made = HttpClient(AddressFilter(["127.0.0.1"]))
    try:
        yield made
    finally:
        await made.close()


def request(url: str, timeout_s: float = 10.0, body: bytes = b"{}") -> HttpRequest:
    return HttpRequest("POST", url, (("content-type", "application/json"),), body, timeout_s)


async def outcomes(there: Stranger, timeout_s: float) -> tuple[set[str], Turns]:
    """The different outcomes of requests that are sent together: the status, or code and sentence."""
    async with client() as http, loop_turns() as turns:

        async def one() -> str:
            try:
                return str((await http.send(request(there.url, timeout_s))).status)
            except Unanswered as failed:
                return f"{failed.code}: {failed.detail}"

        found = await asyncio.gather(*[one() for _ in range(TOGETHER)])
    return set(found), turns


@pytest.mark.parametrize(
    ("first", "again", "outcome"),
    [
        pytest.param(
            b"",
            EARLY,
            "PROTOCOL: it sent more than 10 informational answers (1xx) and not the answer itself",
            id="endless-1xx",
        ),
        pytest.param(OK, b"a:\r\n", TOO_MANY_LINES, id="header-lines"),
        pytest.param(
            OK + b"a: ", b"b" * 4096, "PROTOCOL: the head of its answer is longer than 64 KiB", id="one-line"
        ),
        pytest.param(CHUNKED, b"1;" + b"a" * 60_000 + b"\r\na\r\n", "200", id="chunk-extensions"),
        pytest.param(CHUNKED + b"1", b";a", "200", id="endless-chunk-extension"),
        pytest.param(CHUNKED, b"1\r\na\r\n", "200", id="tiny-chunks"),
        pytest.param(CHUNKED, b"10000\r\n" + b"a" * 65_536 + b"\r\n", "200", id="large-chunks"),
        pytest.param(CHUNKED + b"0\r\n", b"a: b\r\n", TOO_MANY_LINES, id="trailers"),
        pytest.param(OK + b"\r\n", b"a" * 4096, "200", id="body-until-the-end"),
        pytest.param(OK + b"Content-Length: 4000000000\r\n\r\n", b"a" * 4096, "200", id="long-body"),
    ],
)  # fmt: skip
async def test_an_answer_without_an_end_ends_soon_and_holds_nothing_up(
    first: bytes, again: bytes, outcome: str
) -> None:
    with stranger(first, again) as there:
        found, turns = await outcomes(there, 60.0)
        assert found == {outcome}
        assert turns.longest_s <= LONGEST_TURN_S


@pytest.mark.parametrize(
    ("first", "again"), [(b"", EARLY[:1]), (OK, b"a"), (OK + b"\r\n", b"a")], ids=["start", "head", "body"]
)
async def test_a_deadline_holds_while_bytes_keep_coming(first: bytes, again: bytes) -> None:
    with stranger(first, again, pause_s=0.01) as there:
        found, turns = await outcomes(there, 0.3)
        if again == EARLY[:1]:
            assert len(found) == 1
            assert found.pop().startswith("PROTOCOL: its answer is no valid HTTP: ")
        else:
            assert found == {"TIMEOUT: there was no complete answer within 0.3 s"}
        assert turns.longest_s <= LONGEST_TURN_S


async def answer_of(answer: bytes) -> HttpAnswer:
    with stranger(answer) as there:
        async with client() as http:
            return await http.send(request(there.url))


async def test_ten_informational_answers_are_passed_over() -> None:
    found = await answer_of(EARLY * 10 + OK + b"Content-Length: 2\r\nX-Name: \xc3\xa9\r\n\r\nhi")
    assert found == HttpAnswer(200, {"content-length": "2", "x-name": "é"}, b"hi")


@pytest.mark.parametrize("head", [b"", b"Content-Length: 5\r\n", b"Transfer-Encoding: chunked\r\n"])
async def test_an_answer_204_with_a_body_is_an_answer_204(head: bytes) -> None:
    found = await answer_of(b"HTTP/1.1 204 No Content\r\n" + head + b"\r\nhello")
    assert (found.status, found.body) == (204, b"")


@pytest.mark.parametrize(
    ("head", "connections"),
    [(b"Content-Length: 5\r\n", 3), (b"Transfer-Encoding: chunked\r\n", 3), (b"Content-Length: 0\r\n", 1)],
)
async def test_a_body_that_comes_behind_an_answer_204_is_not_taken_for_the_next_answer(
    head: bytes, connections: int
) -> None:
    """Many servers send head and body in two segments."""
    answering = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        answering.append(asyncio.current_task())
        late = b""
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while await reader.readuntil(b"{}"):
                writer.write(late + b"HTTP/1.1 204 No Content\r\n" + head + b"\r\n")
                late = b"" if b" 0" in head else b"hello"
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        host, port = server.sockets[0].getsockname()
        async with client() as http:
            for _ in range(3):
                assert (await http.send(request(f"http://{host}:{port}/hook"))).status == 204
        await asyncio.gather(*filter(None, answering))
    assert len(answering) == connections
