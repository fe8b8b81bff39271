"""Bridges of and to brokers that mirror each other: each message arrives once and in order."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from broker_app.features.bridge.remote import Remote
from tests.support.account import PAUSE_S, Account, working
from tests.support.broker_process import BrokerProcess
from tests.support.mirrors import Mirrors, is_followed, wait_until_serving
from tests.support.polling import poll

pytestmark = pytest.mark.process

#: of each broker as often as of the other
KILLS = 4 if "SOAK" in os.environ else 2
FLOWS = ("orders", "quotes")


@pytest.fixture
async def outside(processes: None, tmp_path: Path) -> AsyncIterator[BrokerProcess]:
    """A broker without mirrors."""
    broker = BrokerProcess(tmp_path / "outside", "--name", "outside")
    broker.start()
    yield broker
    broker.kill()


def make_bridge(broker: BrokerProcess, name: str, remote: BrokerProcess, **members: Any) -> None:
    spec = {"hostname": "127.0.0.1", "port": remote.stomp_port, "retry_s": 0.5}
    spec |= {"user": remote.user, "password": remote.password, **members}
    reply = broker.request("PUT", f"/api/v1/bridges/{name}", json_body=spec)
    assert reply.status == 201, reply.body


def depth(broker: BrokerProcess, queue: str) -> int:
    reply = broker.request("GET", f"/api/v1/queues/{queue}")
    return int(reply.json()["depth"]) if reply.status == 200 else 0


def kill_in_turns(brokers: list[BrokerProcess]) -> BrokerProcess:
    """Kill the active broker again and again, and bring it back as a standby; returns the active one."""
    for number in range(KILLS):
        holder, other = brokers[number % 2], brokers[1 - number % 2]
        poll(lambda holder=holder: is_followed(holder))  # type: ignore[misc]
        holder.kill()
        wait_until_serving(other)
        holder.start(standby=True)
    return brokers[KILLS % 2]


async def send_through(mirrors: Mirrors, account: Account) -> None:
    """Send until cancelled; the client repeats what has no receipt, with its dedup-id."""
    async with mirrors.client() as sender:
        while True:
            await account.send(20, sender)
            await asyncio.sleep(PAUSE_S)


async def test_a_bridge_goes_on_from_the_broker_that_has_taken_over(
    mirrors: Mirrors, outside: BrokerProcess
) -> None:
    main, mirror = mirrors.pair()
    make_bridge(main, "west", outside)
    accounts = [Account(f"/bridge/west/{queue}") for queue in FLOWS]
    async with working(*(send_through(mirrors, account) for account in accounts)):
        await asyncio.to_thread(poll, lambda: all(depth(outside, queue) for queue in FLOWS))
        await asyncio.to_thread(kill_in_turns, [main, mirror])
    for account, queue in zip(accounts, FLOWS, strict=True):
        await account.drain(outside, queue)
        assert account.faults() == []
        assert len(account.promised) > 100 * KILLS


@pytest.mark.slow
async def test_a_bridge_follows_the_broker_that_has_taken_over(
    mirrors: Mirrors, outside: BrokerProcess
) -> None:
    main, mirror = mirrors.pair()
    hosts = f"127.0.0.1:{mirror.stomp_port},127.0.0.1"
    make_bridge(outside, "east", main, hostname=hosts)
    accounts = [Account(f"/bridge/east/{queue}") for queue in FLOWS]
    async with working(*(account.send_for_ever(outside, pause_s=PAUSE_S) for account in accounts)):
        await asyncio.to_thread(poll, lambda: all(depth(main, queue) for queue in FLOWS))
        active = await asyncio.to_thread(kill_in_turns, [main, mirror])
    for account, queue in zip(accounts, FLOWS, strict=True):
        await account.drain(active, queue)
        assert account.faults() == []
        assert len(account.promised) > 100 * KILLS
    tested = outside.request("POST", "/api/v1/bridges/east/test")
    assert tested.json()["ok"], tested.body


@pytest.mark.parametrize(
    ("hostname", "hosts"),
    [
        ("b1", [("b1", 61613)]),
        ("b1,b2:61623", [("b1", 61613), ("b2", 61623)]),
        ("::1, [::2]:1,[::3],10.0.0.1:2", [("::1", 61613), ("::2", 1), ("::3", 61613), ("10.0.0.1", 2)]),
    ],
)
def test_a_hostname_may_be_a_list(hostname: str, hosts: list[tuple[str, int]]) -> None:
    found = Remote("west", hostname).alternatives
    assert [(one.hostname, one.port) for one in found] == hosts


def test_a_list_with_something_else_is_refused(outside: BrokerProcess) -> None:
    for hostname in ("a,", "a,b:", "a,b:x", "a,b:70000", "a b,c", ","):
        reply = outside.request("PUT", "/api/v1/bridges/bad", json_body={"hostname": hostname})
        assert (reply.status, b"hostname" in reply.body) == (400, True), reply.body
