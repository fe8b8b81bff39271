"""Clients behind Debian's HAProxy reach the broker that is active, and only that one."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import httpx
import pytest

import mom_client
from tests.support.broker_process import BrokerProcess
from tests.support.haproxy import Ways, haproxy
from tests.support.mirrors import Mirrors, login_answer, serves
from tests.support.patience import patient
from tests.support.plain_http import NO_TLS
from tests.support.polling import poll

pytestmark = pytest.mark.process

#: messages of each client before the broker is killed, and after that
_MORE = 20


@dataclass
class Pair:
    """A main and its mirror behind a proxy at `ways`."""

    main: BrokerProcess
    mirror: BrokerProcess
    ways: Ways

    def client(self, *, websocket: bool = False) -> mom_client.Client:
        """A client that knows the proxy alone."""
        address = (
            f"ws://127.0.0.1:{self.ways.web}/ws" if websocket else f"stomp://127.0.0.1:{self.ways.stomp}"
        )
        uri = f"static:({address})?maxReconnectDelay=100"
        return mom_client.connect(uri, login=self.main.user, passcode=self.main.password)

    def rest(self) -> httpx.AsyncClient:
        return httpx.AsyncClient(
            base_url=f"http://127.0.0.1:{self.ways.web}/api/v1",
            auth=httpx.BasicAuth(self.main.user, self.main.password),
            trust_env=False,
            verify=NO_TLS,
        )

    def knows_the_active(self) -> bool:
        """Return whether the proxy, which takes turns, has checked both brokers for both of its ports."""
        return all(self._refuses_nothing() for _ in range(4))

    def _refuses_nothing(self) -> bool:
        try:
            ready = httpx.get(
                f"http://127.0.0.1:{self.ways.web}/health/ready", trust_env=False, verify=NO_TLS
            )
        except httpx.TransportError:
            return False
        return ready.is_success and b"MAIN_ACTIVE" not in login_answer(self.main, self.ways.stomp)


@pytest.fixture
def pair(mirrors: Mirrors, tmp_path: Path) -> Iterator[Pair]:
    main, mirror = mirrors.pair()
    with haproxy(tmp_path, (main, mirror)) as ways:
        pair = Pair(main, mirror, ways)
        poll(pair.knows_the_active)
        yield pair


async def post(rest: httpx.AsyncClient, queue: str, body: str) -> None:
    """Publish a message, again and again until it is stored; `body` is its dedup-id."""
    async with asyncio.timeout(patient(20)):
        while True:
            with suppress(httpx.TransportError):
                reply = await rest.post(
                    f"/queues/{queue}/messages", content=body, headers={"Mom-Dedup-Id": body}
                )
                if reply.is_success:
                    return
                assert reply.status_code in (502, 503), reply.text
            await asyncio.sleep(0.05)


@dataclass
class Sender:
    """Sends numbered messages without a pause, and `_MORE` after the broker was killed."""

    name: str
    sent: int = 0

    async def run(self, send: Callable[[str], Awaitable[object]], killed: asyncio.Event) -> None:
        end = sys.maxsize
        while self.sent < end:
            await send(f"{self.name} {self.sent}")
            self.sent += 1
            if killed.is_set():
                end = min(end, self.sent + _MORE)


async def test_stomp_websocket_and_rest_reach_the_new_holder_without_losing_a_message(pair: Pair) -> None:
    """While both brokers run, every connection goes to the active one."""
    await each_reaches_the_active(pair)
    killed = asyncio.Event()
    senders = stomp, websocket, rest = Sender("stomp"), Sender("websocket"), Sender("rest")

    async def kill() -> None:
        while min(one.sent for one in senders) < _MORE:
            await asyncio.sleep(0.01)
        await asyncio.to_thread(pair.main.kill)
        killed.set()

    async with pair.client() as one, pair.client(websocket=True) as other, pair.rest() as http:
        async with asyncio.TaskGroup() as group:
            group.create_task(stomp.run(partial(one.send, "/queue/orders"), killed))
            group.create_task(websocket.run(partial(other.send, "/queue/orders"), killed))
            group.create_task(rest.run(partial(post, http, "orders"), killed))
            group.create_task(kill())
        assert serves(pair.mirror)
        reply = await http.post("/queues/orders/receive", json={"ack": "auto", "max": 10})
        found = [one["body"] for one in reply.json()["items"]]
        async with one.subscribe("/queue/orders") as messages:
            while len(found) < sum(one.sent for one in senders):
                message = await messages.get(10)
                found.append(message.text)
                await message.ack()
    for sender in senders:
        expected = [f"{sender.name} {number}" for number in range(sender.sent)]
        assert [one for one in found if one.startswith(sender.name)] == expected


async def each_reaches_the_active(pair: Pair) -> None:
    for _ in range(10):
        async with pair.client() as mom:
            assert mom.server["mom-failover"].split(",")[0].endswith(f":{pair.main.stomp_port}")
    async with pair.rest() as rest:
        for _ in range(10):
            assert (await rest.get("/queues")).status_code == 200


async def test_connections_to_a_broker_that_hangs_are_ended(pair: Pair) -> None:
    async with pair.client() as mom, mom.subscribe("/queue/orders") as messages:
        os.kill(pair.main.pid, signal.SIGSTOP)
        async with pair.rest() as rest:
            await post(rest, "orders", "after the takeover")
        message = await messages.get(10)
        assert message.text == "after the takeover"
        await message.ack()
    assert serves(pair.mirror)
