"""Connections of a browser session end with it: its WebSocket, its streams, its waiting requests."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from typing import NamedTuple

import httpx
import pytest
from websockets.asyncio.client import ClientConnection, connect

from tests.support.broker_process import BrokerProcess

#: a busy machine needs longer than the broker does
PATIENCE_S = 60
PASSWORD = "the password of carol"
OWN = {"X-Requested-With": "tests"}


class Opened(NamedTuple):
    """The connections of carol's browser."""

    client: httpx.AsyncClient
    socket: ClientConnection
    stream: httpx.Response
    waiting: asyncio.Task[httpx.Response]


@pytest.fixture(scope="module")
def carol(broker: BrokerProcess) -> None:
    made = broker.request("PUT", "/api/v1/users/carol", json_body={"password": PASSWORD}, if_none_match="*")
    assert made.status == 201, made.body


@asynccontextmanager
async def opened(broker: BrokerProcess) -> AsyncIterator[Opened]:
    """A browser session of carol, with all that it may leave open."""
    async with httpx.AsyncClient(base_url=broker.url, trust_env=False, timeout=PATIENCE_S) as client:
        await client.get("/login/")
        form = {"username": "carol", "password": PASSWORD, "csrfmiddlewaretoken": client.cookies["mom_csrf"]}
        assert (await client.post("/login/", data=form)).status_code == 302
        cookie = {"Cookie": f"mom_session={client.cookies['mom_session']}"}
        async with (
            connect(f"ws://127.0.0.1:{broker.port}/ws", additional_headers=cookie, proxy=None) as socket,
            client.stream("GET", "/api/v1/queues/news/events", headers=OWN) as stream,
        ):
            await socket.send("CONNECT\naccept-version:1.2\nhost:/\n\n\0")
            assert "CONNECTED" in _text(await socket.recv())
            assert stream.status_code == 200, await stream.aread()
            wait = client.post("/api/v1/queues/empty/receive", json={"wait_s": 20}, headers=OWN)
            waiting = asyncio.create_task(wait)
            yield Opened(client, socket, stream, waiting)
            waiting.cancel()


def _text(frame: str | bytes) -> str:
    return frame if isinstance(frame, str) else frame.decode()


async def all_ended(held: Opened) -> None:
    """Wait until nothing of it is open, and see that each received the reason."""
    async with asyncio.timeout(PATIENCE_S):
        assert "not-authenticated" in "".join([_text(frame) async for frame in held.socket])
        assert "not-authenticated" in "".join([part async for part in held.stream.aiter_text()])
        assert (await held.waiting).status_code == 401
        assert (await held.client.get("/api/v1/queues", headers=OWN)).status_code == 401


async def test_logging_out_ends_what_the_session_opened_and_no_other_session(
    broker: BrokerProcess, carol: None
) -> None:
    async with opened(broker) as held, opened(broker) as other:
        form = {"csrfmiddlewaretoken": held.client.cookies["mom_csrf"]}
        assert (await held.client.post("/logout/", data=form)).status_code == 302
        assert (await held.client.get("/api/v1/queues", headers=OWN)).status_code == 401
        await all_ended(held)
        await other.socket.send("SEND\ndestination:/queue/a\nreceipt:1\n\nx\0")
        assert "RECEIPT" in _text(await other.socket.recv())
        assert (await other.client.get("/api/v1/queues", headers=OWN)).status_code == 200


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE django_session SET expire_date = '2001-01-01 00:00:00' WHERE session_key = ?",
        "DELETE FROM django_session WHERE session_key = ?",
    ],
    ids=["it expires", "another process removes it"],
)
async def test_a_session_that_is_over_by_itself_ends_what_it_opened(
    broker: BrokerProcess, carol: None, change: str
) -> None:
    async with opened(broker) as held:
        with closing(sqlite3.connect(broker.data / "config.sqlite3", timeout=30)) as database, database:
            assert database.execute(change, (held.client.cookies["mom_session"],)).rowcount == 1
        await all_ended(held)


@pytest.mark.parametrize(
    ("change", "back"),
    [
        ({"password": "another password of carol"}, {"password": PASSWORD}),
        ({"active": False}, {"active": True}),
    ],
    ids=["another password", "deactivated"],
)
async def test_a_deactivated_user_keeps_nothing_open(
    broker: BrokerProcess, carol: None, change: dict[str, object], back: dict[str, object]
) -> None:
    async with opened(broker) as held:
        await asyncio.to_thread(_change, broker, change)
        await all_ended(held)
    await asyncio.to_thread(_change, broker, back)


def _change(broker: BrokerProcess, change: dict[str, object]) -> None:
    shown = broker.request("GET", "/api/v1/users/carol")
    etag = shown.headers["etag"]
    changed = broker.request("PATCH", "/api/v1/users/carol", json_body=change, if_match=etag)
    assert changed.status == 200, changed.body
