"""Messages for queues that are away, with nodes that speak over real TCP."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from mom_client import Refused
from tests.bridge.pair import USERS, pair, receive, remote_of, until
from tests.support.small_node import policy_of, small_node


async def test_messages_arrive_at_the_target_in_order(tmp_path: Path) -> None:
    async with pair(tmp_path) as both, both.home.stomp("john") as john, both.away.stomp("john") as there:
        await both.send(john, "orders", *(str(number) for number in range(1000)))
        assert await receive(there, "orders", 1000) == [str(number).encode() for number in range(1000)]
        await until(lambda: both.flow("orders")["depth"] == 0)
        flow = both.flow("orders")
        assert flow["state"] == "running"
        assert flow["sent"] == flow["accepted"] == 1000
        assert flow["gap"] == flow["duplicate"] == flow["refused"] == flow["in_flight"] == 0


async def test_a_message_arrives_with_its_headers_and_what_is_known_of_it(tmp_path: Path) -> None:
    expires_at_ms = round(time.time() * 1000) + 60_000
    async with pair(tmp_path) as both, both.home.stomp("john") as john, both.away.stomp("john") as there:
        own = {"colour": "red:1", "städte": "a\\b\nc", "expires": str(expires_at_ms)}
        await both.send(john, "orders", b"\0body\n", headers=own, persistent=False, priority=7)
        async with there.subscribe("/queue/orders") as messages:
            message = await anext(messages)
        assert message.body == b"\0body\n"
        assert own.items() <= dict(message.headers).items()
        assert message.headers["persistent"] == "false"
        assert message.headers["priority"] == "7"
        assert "receipt" not in message.headers


async def test_a_time_to_live_counts_from_when_the_message_was_sent(tmp_path: Path) -> None:
    async with pair(tmp_path, desired="paused") as both, both.home.stomp("john") as john:
        await both.send(john, "orders", b"short", ttl_s=0.3)
        await both.send(john, "orders", b"long", ttl_s=60.0)
        before_ms = time.time() * 1000
        await until(lambda: time.time() * 1000 > before_ms + 400)
        await both.change()
        async with both.away.stomp("john") as there, there.subscribe("/queue/orders") as messages:
            message = await anext(messages)
        assert message.body == b"long"
        assert int(message.headers["expires"]) <= before_ms + 60_000


async def test_messages_wait_at_home_while_the_remote_broker_is_away(tmp_path: Path) -> None:
    async with pair(tmp_path) as both:
        port = both.away.node.stomp_port
    async with small_node(tmp_path / "home2", policy_of(users=USERS), name="home") as home:
        both.home = home
        await both.bridges(remote_of(both.away))
        async with home.stomp("john") as john:
            await both.send(john, "orders", *(str(number) for number in range(100)))
            await until(lambda: both.report()["state"] == "retrying")
            assert both.report()["error"]["code"] == "REFUSED"
            flow = both.flow("orders")
            assert flow["state"] == "retrying"
            assert (flow["depth"], flow["sent"]) == (100, 0)
            assert home.depth("storeAndForward:oslo/queue/orders") == 100
            await until(lambda: both.report()["attempts"] > 2)
            async with (
                small_node(tmp_path / "away", policy_of(users=USERS), port=port or 0, name="away") as away,
                away.stomp("john") as there,
            ):
                began = time.monotonic()
                assert await receive(there, "orders", 100) == [str(number).encode() for number in range(100)]
                assert time.monotonic() - began < 2.0
                assert both.report()["error"] is None


async def test_two_queues_share_one_connection_and_one_rests_alone(tmp_path: Path) -> None:
    async with pair(tmp_path, paused_queues=["b"]) as both, both.home.stomp("john") as john:
        await both.send(john, "a", b"1")
        await both.send(john, "b", b"2")
        await until(lambda: both.away.depth("a") == 1)
        await until(lambda: len(both.report()["flows"]) == 2)
        assert both.flow("b")["state"] == "suspended"
        assert (both.flow("b")["paused"], both.flow("b")["depth"]) == (True, 1)
        (connection,) = both.away.node.registry.sessions
        await both.change()
        await until(lambda: both.away.depth("b") == 1)
        assert list(both.away.node.registry.sessions) == [connection]
        await both.change(paused_queues=["a"])
        await both.send(john, "a", b"3")
        await both.send(john, "b", b"4")
        await until(lambda: both.away.depth("b") == 2)
        assert both.away.depth("a") == 1
        assert both.flow("a")["depth"] == 1
        assert list(both.away.node.registry.sessions) == [connection]


async def test_idle_flows_sleep_and_then_their_connection_ends_until_something_comes(tmp_path: Path) -> None:
    async with pair(tmp_path, idle_s=0.3) as both, both.home.stomp("john") as john:
        await both.send(john, "a", b"1")
        await both.send(john, "b", b"1")
        await until(lambda: both.away.depth("a") == both.away.depth("b") == 1)
        await until(lambda: both.report()["state"] == "suspended")
        assert {flow["state"] for flow in both.report()["flows"]} == {"suspended"}
        await until(lambda: not both.away.node.registry.sessions)
        began = time.monotonic()
        await both.send(john, "a", b"2")
        await until(lambda: both.away.depth("a") == 2)
        assert time.monotonic() - began < 2.0
        assert both.flow("b")["state"] == "suspended"


async def test_a_flow_keeps_its_figures_when_its_empty_queue_is_forgotten(tmp_path: Path) -> None:
    async with pair(tmp_path, idle_s=0.2) as both, both.home.stomp("john") as john:
        await both.send(john, "orders", b"1")
        await until(lambda: both.away.depth("orders") == 1 and both.flow("orders")["state"] == "suspended")
        await both.home.node.operations.delete_queue(both.source("orders"), force=False)
        both.home.node.features.bridges.supervisor.scan()
        assert both.flow("orders")["accepted"] == 1
        await both.send(john, "orders", b"2")
        await until(lambda: both.away.depth("orders") == 2 and both.flow("orders")["accepted"] == 2)


async def test_a_paused_bridge_has_no_connection_and_goes_on_where_it_was(tmp_path: Path) -> None:
    async with pair(tmp_path) as both, both.home.stomp("john") as john, both.away.stomp("john") as there:
        await both.send(john, "orders", *(str(number) for number in range(500)))
        await both.change(desired="paused")
        await until(lambda: both.report()["state"] == "suspended")
        await until(lambda: len(both.away.node.registry.sessions) == 1)
        await both.send(john, "orders", *(str(number) for number in range(500, 600)))
        flow = both.flow("orders")
        assert flow["state"] == "suspended"
        assert flow["in_flight"] == 0
        assert flow["depth"] == 600 - flow["accepted"]
        await both.change()
        assert await receive(there, "orders", 600) == [str(number).encode() for number in range(600)]
        supervisor = both.home.node.features.bridges.supervisor
        events = [event["event"] for event in supervisor.events_of("oslo") or ()]
        assert events.index("paused") < events.index("resumed")


async def test_a_draining_bridge_takes_no_more_and_forwards_what_is_there(tmp_path: Path) -> None:
    async with pair(tmp_path, desired="paused") as both, both.home.stomp("john") as john:
        await both.send(john, "orders", b"1", b"2")
        await both.change(desired="draining")
        await until(lambda: both.report()["drained"])
        assert both.away.depth("orders") == 2
        for queue in ("orders", "new"):
            with pytest.raises(Refused, match="bridge is being drained"):
                await both.send(john, queue, b"3")
        await both.change()
        await both.send(john, "orders", b"3")
        await until(lambda: both.away.depth("orders") == 3)


async def test_queues_without_a_bridge_are_listed_and_wait_for_one(tmp_path: Path) -> None:
    async with pair(tmp_path) as both, both.home.stomp("john") as john:
        await john.send(both.source("orders", "rome"), b"1")
        (orphan,) = both.home.node.features.bridges.supervisor.orphans()
        assert (orphan["bridge"], orphan["queue"], orphan["depth"]) == ("rome", "orders", 1)
        await both.bridges(remote_of(both.away), remote_of(both.away, "rome"))
        await until(lambda: both.away.depth("orders") == 1)
        assert both.home.node.features.bridges.supervisor.orphans() == []
        await both.bridges(remote_of(both.away))
        await john.send(both.source("orders", "rome"), b"2")
        (orphan,) = both.home.node.features.bridges.supervisor.orphans()
        assert orphan["error"]["code"] == "NO_BRIDGE"
        await both.bridges(remote_of(both.away), remote_of(both.away, "rome"))
        await until(lambda: both.away.depth("orders") == 2)


async def test_nothing_is_forwarded_while_another_consumer_holds_a_message(tmp_path: Path) -> None:
    async with pair(tmp_path, desired="paused") as both, both.home.stomp("john") as john:
        await both.send(john, "orders", b"1", b"2")
        source = both.source("orders")
        async with both.home.stomp("admin") as admin, admin.subscribe(source, credit=1) as messages:
            message = await anext(messages)
            await both.change()
            await until(lambda: both.flow("orders")["error"])
            assert both.flow("orders")["error"]["code"] == "HELD"
            assert both.away.depth("orders") == 0
            await message.nack()
            await until(lambda: both.away.depth("orders") == 2)
            await until(lambda: both.flow("orders")["error"] is None)
        async with both.away.stomp("john") as there:
            assert await receive(there, "orders", 2) == [b"1", b"2"]
