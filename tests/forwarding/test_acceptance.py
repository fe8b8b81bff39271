"""Acceptance scenarios with two brokers: a queue at home, outages of the remote broker, sleep and waking."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.bridge.pair import until
from tests.support.account import Account, client
from tests.support.broker_process import BrokerProcess
from tests.support.polling import poll
from tests.support.proxy import proxy

pytestmark = pytest.mark.process

RETRY_S = 1.0
SYNC_QUEUE = "/api/v1/queues/storeAndForwardSyncQueue"


class Two:
    """`home`, and `away`, the remote broker of its bridges, which has run before and is down."""

    def __init__(self, home: BrokerProcess, away: BrokerProcess) -> None:
        self.home, self.away = home, away

    def bridge(self, name: str, **said: Any) -> None:
        """Say something of a bridge; it is made where there is none."""
        quick = {"hostname": "127.0.0.1", "port": self.away.stomp_port, "retry_s": RETRY_S}
        login = {"user": self.away.user, "password": self.away.password}
        path, body = f"/api/v1/bridges/{name}", quick | login | said
        reply = self.home.request("PUT", path, json_body=body)
        if reply.status == 428:
            reply = self.home.request("PUT", path, json_body=body, if_match=reply.json()["current"])
        assert reply.status in (200, 201), reply

    def status(self, name: str) -> Any:
        return self.home.request("GET", f"/api/v1/bridges/{name}/status").json()

    def flow(self, name: str, queue: str) -> Any:
        return next(
            (flow for flow in self.status(name)["flows"] if flow["queue"] == queue), {"state": "none"}
        )

    def events(self, name: str) -> list[Any]:
        items: list[Any] = self.home.request("GET", f"/api/v1/bridges/{name}/events").json()["items"]
        return items


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Two]:
    """Brokers for all tests of the module; each test has bridges and queues of its own."""
    folder = tmp_path_factory.mktemp("two")
    home, away = (BrokerProcess(folder / name, "--name", name) for name in ("home", "away"))
    try:
        away.start()
        home.start()
        yield Two(home, away)
    finally:
        for one in (home, away):
            one.kill()


async def test_a_message_waits_at_home_until_the_remote_broker_is_available(two: Two) -> None:
    assert two.away.request("GET", SYNC_QUEUE).status == 404
    two.away.terminate()
    two.bridge("broker1")
    async with client(two.home, store_and_forward=True, broker="broker1") as john:
        await john.send("/queue/queue1", "Grüße", headers={"colour": "blue"}, priority=7, correlation_id="c1")
    name = "storeAndForward:broker1/queue/queue1"
    assert two.home.request("GET", f"/api/v1/queues/{name}").json()["depth"] == 1
    assert two.status("broker1")["state"] in ("connecting", "retrying")
    await asyncio.to_thread(two.away.start)
    async with client(two.away) as receiver, receiver.subscribe("/queue/queue1") as messages:
        message = await messages.get(60)
        assert message.text == "Grüße"
        assert message.headers["colour"] == "blue"
        assert (message.headers["priority"], message.headers["correlation-id"]) == ("7", "c1")
        await message.ack(confirm=True)
    assert two.away.request("GET", SYNC_QUEUE).status == 200
    poll(lambda: two.flow("broker1", "queue1")["state"] == "running")
    assert two.status("broker1")["state"] == "running"


async def test_messages_sent_during_an_outage_arrive_once_and_in_order_soon_after_it(two: Two) -> None:
    two.away.terminate()
    two.bridge("outage")
    account = Account("/bridge/outage/numbers")
    async with client(two.home) as sender:
        await account.send(1_000, sender)
    poll(lambda: two.status("outage")["attempts"] >= 2)  # it does not give up
    await asyncio.to_thread(two.away.start)
    back = time.monotonic()
    poll(lambda: two.away.request("GET", "/api/v1/queues/numbers").status == 200, RETRY_S * 1.2 + 2)
    assert time.monotonic() - back <= RETRY_S * 1.2 + 2
    await account.drain(two.away, "numbers")
    assert account.faults() == []
    assert account.arrived == list(range(1_000))


async def test_two_queues_of_a_remote_broker_share_a_connection_and_one_may_rest_alone(two: Two) -> None:
    async with proxy(two.away.stomp_port) as network:
        two.bridge("shared", port=network.port)
        first, second = (Account(f"/bridge/shared/shared-{number}") for number in (1, 2))
        async with client(two.home) as sender:
            for account in (first, second):
                await account.send(1, sender)
                await account.drain(two.away, account.destination.rpartition("/")[2], quiet_s=0.1)
            assert network.accepted == network.connections == 1
            assert [flow["queue"] for flow in two.status("shared")["flows"]] == ["shared-1", "shared-2"]
            await asyncio.to_thread(two.bridge, "shared", port=network.port, paused_queues=["shared-1"])
            await until(lambda: two.flow("shared", "shared-1")["state"] == "suspended")
            for account in (first, second):
                await account.send(5, sender)
        await second.drain(two.away, "shared-2", quiet_s=0.1)
        assert second.faults() == []
        assert two.flow("shared", "shared-1")["depth"] == 5
        await asyncio.to_thread(two.bridge, "shared", port=network.port, paused_queues=[])
        await first.drain(two.away, "shared-1", quiet_s=0.1)
        assert first.faults() == []
        assert network.accepted == 1, "pausing a flow is no reason to reconnect"


async def test_an_idle_bridge_has_no_connection_and_reconnects_at_once(two: Two) -> None:
    async with proxy(two.away.stomp_port) as network:
        two.bridge("idle", port=network.port, idle_s=2.0)
        account = Account("/bridge/idle/seldom")
        async with client(two.home) as sender:
            await account.send(1, sender)
            await account.drain(two.away, "seldom", quiet_s=0.1)
            assert network.connections == 1
            await until(lambda: two.status("idle")["state"] == "suspended")
            assert two.flow("idle", "seldom")["state"] == "suspended"
            await until(lambda: network.connections == 0)
            assert [event["event"] for event in two.events("idle")].count("suspended") >= 1
            await account.send(1, sender)
            sent = time.monotonic()
        await account.drain(two.away, "seldom", quiet_s=0.0)
        assert time.monotonic() - sent < 2.0
        assert account.arrived == [0, 1]
        assert network.accepted == 2
