"""States of members as the others show them, over REST and by `mom cluster status`: quiesced ones, a
takeover that takes long and fails, and a shutdown without failover."""

from __future__ import annotations

import asyncio
import json
import re
import time
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from broker_app.cli.base.failures import OK
from broker_app.features.enhanced_cluster.client_refusal import REFUSES_S
from tests.cli.conftest import CommandLine
from tests.cluster.test_messages_across_brokers import bodies, take
from tests.cluster.test_redirects import refused
from tests.enhanced_cluster.members import (
    QUEUE,
    MemberProcess,
    Members,
    adopted,
    cluster_of,
    linked,
    running,
    states,
    taken_over,
)
from tests.enhanced_cluster.test_orders import order
from tests.support.awaiting import becomes, until
from tests.support.hook_server import hook_server
from tests.support.patience import patient
from tests.support.proxy import proxy
from tests.support.redis import redis_server

#: bytes of a journal that takes twenty seconds to be read at this rate
_BODY, _NUMBER, _RATE = b"." * 100_000, 20, 100_000


async def messages_of(member: MemberProcess, seen_by: MemberProcess) -> int:
    """The number of messages of a member, as another one shows it."""
    found = (await cluster_of(seen_by))["enhanced"]["members"]
    return next(int(one["messages"]) for one in found if one["broker"] == member.data.name)


async def state_of(member: MemberProcess, seen_by: MemberProcess) -> str:
    """The state of a member as another one shows it."""
    return (await states(seen_by))[member.data.name]


async def shown(command_line: CommandLine, member: MemberProcess, seen_by: MemberProcess) -> list[str]:
    """The line of a member in `mom cluster status`: state, messages, and who has taken it over."""
    command_line.about(seen_by)
    status = await asyncio.to_thread(command_line, "cluster", "status")
    return next(row[1:4] for row in status.rows if row[0] == member.data.name)


async def give(broker: MemberProcess, verb: str) -> None:
    """Give an order about clients to a member."""
    said = {"name": broker.data.name}
    reply = await asyncio.to_thread(broker.request, "POST", f"/api/v1/broker/{verb}", json_body=said)
    assert reply.status == 200, reply.body


async def check_refusal(member: MemberProcess, taken: MemberProcess, other: MemberProcess) -> None:
    """Check that a member that takes over refuses a client of another make, and sends it to another one."""
    heard = await asyncio.to_thread(refused, member)
    assert json.loads(heard.body)["type"].endswith("/taking-over")
    why = f"takes over the messages of {taken.data.name} now, for {REFUSES_S:.0f} s at most"
    assert f"broker {member.data.name} {why}: connect to " in json.loads(heard.body)["detail"]
    assert f"stomp://{other.host}:{other.stomp_port}" in heard.headers["active"].split(",")
    ready = await asyncio.to_thread(member.request, "GET", "/api/v1/health/ready", authorization="")
    assert (ready.status, ready.json()["type"].rpartition("/")[2]) == (503, "taking-over")


async def takes_clients(member: MemberProcess) -> bool:
    """Return whether a load balancer may send clients to a member."""
    ready = await asyncio.to_thread(member.request, "GET", "/api/v1/health/ready", authorization="")
    return ready.status == 200


async def refusing_s(member: MemberProcess) -> float:
    """Seconds for which a member has refused clients because of takeovers, by its metrics."""
    metrics = await asyncio.to_thread(member.request, "GET", "/metrics")
    found = re.search(rb"^mom_cluster_takeover_refusing_seconds_total (\S+)$", metrics.body, re.MULTILINE)
    assert found is not None, metrics.body
    return float(found[1])


@pytest.mark.process
async def test_a_takeover_that_runs_and_one_that_failed_are_shown_and_it_is_made_up_for(
    tmp_path: Path,
) -> None:
    """Both other members are quiesced, so that only orders make them take over. They are not while b2 takes
    over: so nothing but that keeps clients from it, and they are sent to b3."""
    command_line = CommandLine(tmp_path)
    async with AsyncExitStack() as stack:
        server = stack.enter_context(redis_server())
        network = await stack.enter_async_context(proxy(server.port))
        urls = [server.url, f"redis://127.0.0.1:{network.port}", server.url]
        # b2 starts through the network, which is in this loop.
        members = running(Members(tmp_path, urls, 3))
        b1, b2, b3 = await asyncio.to_thread(stack.enter_context, members)
        await becomes(lambda: linked(b3), ["b1", "b2"])
        async with b1.stomp() as producer:
            for _ in range(_NUMBER):
                await producer.send(QUEUE, _BODY)
        await give(b2, "quiesce")
        async with b3.stomp():
            await give(b3, "quiesce")
            await becomes(
                lambda: states(b1),
                {"b1": "OPERATING", "b2": "QUIESCE_COMPLETE", "b3": "QUIESCE_STARTED"},
            )
        await becomes(lambda: state_of(b3, b1), "QUIESCE_COMPLETE")

        await becomes(lambda: messages_of(b1, b3), _NUMBER)
        network.back.rate = _RATE
        for broker in (b2, b3):
            await give(broker, "unquiesce")
        ordered = asyncio.create_task(order(b2, member="b1", force=True))
        await becomes(lambda: state_of(b1, b3), "TAKEOVER_STARTED")
        began = time.monotonic()
        assert await shown(command_line, b1, b3) == ["TAKEOVER_STARTED", str(_NUMBER), "b2"]
        assert (await cluster_of(b2))["enhanced"]["taking_over"] == "b1"
        await check_refusal(b2, b1, b3)
        await becomes(lambda: takes_clients(b2), True)
        assert time.monotonic() - began < patient(REFUSES_S + 5)
        assert (await cluster_of(b2))["enhanced"]["taking_over"] == "b1"
        assert await refusing_s(b2) == REFUSES_S
        async with b2.stomp():
            pass
        for broker in (b2, b3):
            await give(broker, "quiesce")
        network.cut()
        network.heal()
        failed = await ordered
        assert (failed.status, "b1 was not taken over: " in failed.json()["detail"]) == (409, True)
        await becomes(lambda: state_of(b1, b3), "TAKEOVER_FAILED")
        assert await shown(command_line, b1, b3) == ["TAKEOVER_FAILED", str(_NUMBER), "b2"]
        takeover, *_ = (await cluster_of(b3))["enhanced"]["takeovers"]
        assert (takeover["result"], takeover["error"] != "") == ("failed", True)

        await until(lambda: not b1.running)  # it has lost its journal
        done = await order(b2, member="b1")
        assert (done.status, done.json()["messages"]) == (200, _NUMBER), done.body
        await becomes(lambda: state_of(b1, b3), "TAKEOVER_COMPLETE")
        assert await shown(command_line, b1, b3) == ["TAKEOVER_COMPLETE", str(_NUMBER), "b2"]
        await give(b3, "unquiesce")
        async with b3.stomp() as consumer, consumer.subscribe(QUEUE) as messages:
            assert bodies(await take(messages, _NUMBER)) == [_BODY] * _NUMBER
        await becomes(lambda: messages_of(b1, b3), 0)
        assert await state_of(b1, b3) == "TAKEOVER_COMPLETE"


@pytest.mark.process
async def test_a_member_that_mom_shuts_down_without_failover_is_shown_as_it_stops_and_starts_with_all_it_had(
    tmp_path: Path,
) -> None:
    """Its end takes a moment, since a webhook that it has called does not answer. b3 is killed after it, and
    is taken over first."""
    command_line = CommandLine(tmp_path)
    options = ("--cluster-heartbeat-interval", "0.3", "--cluster-heartbeat-threshold", "6")
    with (
        redis_server() as server,
        hook_server() as receiver,
        running(Members(tmp_path, server.url, 3, *options, "--webhook-allow", "127.0.0.1")) as members,
    ):
        b1, b2, b3 = members
        await becomes(lambda: linked(b2), ["b1", "b3"])
        async with b1.stomp() as producer:
            for number in range(10):
                await producer.send(QUEUE, b"%d" % number)
            receiver.answers.clear()
            hook = {"url": receiver.url, "queue": "calls"}
            made = await asyncio.to_thread(b1.request, "PUT", "/api/v1/callbacks/hook", json_body=hook)
            assert made.status < 300, made.body
            await producer.send("/queue/calls", b"a push without an answer")
            await until(lambda: receiver.bodies)

        command_line.about(b1)
        told = await asyncio.to_thread(
            command_line, "broker", "shutdown", "b1", "--no-failover", "--reason", "new disks", "--yes"
        )
        assert told.code == OK, told.err
        await becomes(lambda: state_of(b1, b2), "SHUTDOWN_STARTED")
        await becomes(lambda: state_of(b1, b2), "BROKER_DOWN")
        b3.kill()
        await becomes(lambda: taken_over(b2), ["b3"], 30)
        assert await shown(command_line, b1, b2) == ["BROKER_DOWN", "11", ""]
        assert "b1" not in await adopted(b2)

        await until(lambda: not b1.running)
        b1.start()
        await becomes(lambda: state_of(b1, b2), "OPERATING")
        assert await taken_over(b2) == ["b3"]
        async with b1.stomp() as consumer, consumer.subscribe(QUEUE) as messages:
            assert bodies(await take(messages, 10)) == [b"%d" % number for number in range(10)]
