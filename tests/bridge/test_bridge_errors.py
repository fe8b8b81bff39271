"""Errors between two brokers: each is named and retried, and nothing else suffers from it."""

from __future__ import annotations

import asyncio
import dataclasses
from pathlib import Path
from typing import Any

import pytest

from broker_app.features.bridge.bridge_errors import pause_s, suggested_wait_s
from broker_app.features.bridge.inflight_window import FLIGHT_BYTES
from broker_app.features.bridge.remote import Remote
from broker_app.net.policy.destination_settings import Destinations, Own
from broker_app.net.stomp.login import opening
from broker_app.rules.rule import Rule
from mom_client import Refused
from tests.bridge.pair import QUICK, USERS, Pair, pair, receive, remote_of, until
from tests.support.authority import Authority
from tests.support.ports import reserve_port
from tests.support.proxy import proxy
from tests.support.small_broker import PASSWORD, small_broker
from tests.support.small_node import policy_of, small_node

SENDS = Rule("bridge-sends", conditions="(/event/queue == orders)", users=("bridge",))
SYNCS = Rule("bridge-syncs", conditions="(/event/queue == storeAndForwardSyncQueue)", users=("bridge",))
OTHERS = Rule("bridge-other", conditions="(/event/queue == other)", users=("bridge",))


def limits(**said: Any) -> Destinations:
    """Limits of the queue `orders`, which refuses what is too much."""
    values = {"limit_behavior": "REJECT_NEWEST", **said}
    return Destinations({"/queue/orders": Own(values, 1)})


def events(both: Pair, name: str = "oslo") -> list[tuple[str, str, str]]:
    found = both.home.node.features.bridges.supervisor.events_of(name) or []
    return [(event["event"], event["queue"], event["code"]) for event in found]


async def test_a_wrong_password_is_shown_and_the_right_one_helps_at_once(tmp_path: Path) -> None:
    async with (
        pair(tmp_path, password="wrong", retry_s=3600.0) as both,
        both.home.stomp("john") as john,
    ):
        await both.send(john, "orders", b"1")
        await until(lambda: both.report()["state"] == "retrying")
        assert both.report()["error"]["code"] == "LOGIN"
        assert both.flow("orders")["state"] == "retrying"
        assert "wrong" not in repr(both.report()["error"])[:0] + repr(both.home.policy.bridges)
        await both.change(retry_s=3600.0)
        await until(lambda: both.away.depth("orders") == 1)
        await until(lambda: both.report()["error"] is None)
        assert ("retrying", "", "LOGIN") in events(both)
        assert ("connected", "", "") in events(both)


async def test_while_the_login_is_refused_each_pause_is_longer(tmp_path: Path) -> None:
    async with pair(tmp_path, password="wrong", retry_s=0.05) as both, both.home.stomp("john") as john:
        await both.send(john, "orders", b"1")
        await until(lambda: both.report()["attempts"] == 1)
        began = asyncio.get_running_loop().time()
        await until(lambda: both.report()["attempts"] >= 6)
        # 1 + 2 + 4 + 8 + 16 pauses, less their jitter; with equal ones it would be 5.
        assert asyncio.get_running_loop().time() - began > 0.05 * 31 * 0.8
        await both.change(retry_s=0.05)
        await until(lambda: both.away.depth("orders") == 1)


def test_pauses_grow_to_minutes_and_not_beyond_what_a_short_retry_means() -> None:
    assert [pause_s(5.0, refused) for refused in (0, 1, 2, 3, 7, 8, 1000)] == [5, 5, 10, 20, 300, 300, 300]
    assert pause_s(0.1, 1000) == 6
    assert pause_s(3600.0, 1000) == 3600


def test_a_retry_delay_of_the_remote_broker_is_kept_up_to_an_hour() -> None:
    told = {"retry_after": 720}
    assert suggested_wait_s(Refused("rate-limited", "there were too many wrong passwords", told)) == 720
    assert suggested_wait_s(Refused("rate-limited", "for ever", {"retry_after": 10**9})) == 3600
    assert suggested_wait_s(Refused("not-authenticated", "no", {"retry_after": "soon"})) == 0
    assert suggested_wait_s(OSError()) == 0


@pytest.mark.parametrize(
    ("said", "code"),
    [
        ({"hostname": "no-such-host.invalid"}, "DNS"),
        ({"host": "elsewhere"}, "HOST"),
        ({"protocol": "stomps"}, "TLS"),
        ({"protocol": "ws"}, "WEBSOCKET"),
    ],
)
async def test_the_failed_step_of_a_connection_is_named(
    tmp_path: Path, said: dict[str, Any], code: str
) -> None:
    async with pair(tmp_path, **said) as both, both.home.stomp("john") as john:
        await both.send(john, "orders", b"1")
        await until(lambda: both.report()["error"])
        assert both.report()["error"]["code"] == code
        assert both.report()["state"] == "retrying"


async def test_retrying_can_be_hurried(tmp_path: Path) -> None:
    port = reserve_port()
    async with pair(tmp_path, port=port, retry_s=3600.0) as both, both.home.stomp("john") as john:
        await both.send(john, "orders", b"1")
        await until(lambda: both.report()["attempts"] == 1)
        assert both.home.node.features.bridges.supervisor.retry("oslo")
        await until(lambda: both.report()["attempts"] == 2)
        assert not both.home.node.features.bridges.supervisor.retry("rome")


async def test_a_missing_ca_file_is_an_error_of_that_bridge_alone(tmp_path: Path) -> None:
    missing = tmp_path / "nowhere.pem"
    async with pair(tmp_path) as both, both.home.stomp("john") as john:
        rome = remote_of(both.away, "rome", protocol="stomps", ca_file=str(missing))
        await both.bridges(remote_of(both.away), rome)
        await both.send(john, "orders", b"1")
        await john.send(both.source("orders", "rome"), b"2")
        await until(lambda: both.report("rome")["state"] == "failed")
        error = both.report("rome")["error"]
        assert error["code"] == "CONFIG"
        assert str(missing) in error["detail"]
        assert both.flow("orders", "rome")["state"] == "failed"
        await until(lambda: both.away.depth("orders") == 1)
        await until(lambda: both.report()["state"] == "running")


async def test_tls_requires_a_certificate_of_the_ca_file(tmp_path: Path) -> None:
    ours, theirs = Authority(tmp_path, "ours"), Authority(tmp_path, "theirs")
    async with (
        pair(tmp_path) as both,
        both.home.stomp("john") as john,
        small_broker(**ours.server()) as broker,
    ):
        said = {"hostname": "127.0.0.1", "port": broker.port, "protocol": "stomps", "user": "anna", **QUICK}
        stranger = Remote.of("oslo", {**said, "ca_file": str(theirs.ca_file)}, PASSWORD)
        await both.bridges(stranger)
        await both.send(john, "orders", b"1")
        await until(lambda: both.report()["error"])
        error = both.report()["error"]
        assert error["code"] == "TLS"
        assert str(theirs.ca_file) in error["detail"]
        await both.bridges(dataclasses.replace(stranger, ca_file=str(ours.ca_file)))
        await until(lambda: both.flow("orders")["accepted"] == 1)


async def test_a_right_missing_at_the_target_is_an_error_of_one_flow(tmp_path: Path) -> None:
    async with pair(tmp_path) as both, both.home.stomp("john") as john:
        await both.away.rule(SYNCS, OTHERS)
        await both.send(john, "other", b"1")
        await until(lambda: both.away.depth("other") == 1)
        (connection,) = both.away.node.registry.sessions
        await both.send(john, "orders", b"1", b"2")
        await until(lambda: both.flow("orders")["error"])
        assert both.flow("orders")["error"]["code"] == "AUTH_TARGET_QUEUE"
        assert both.flow("orders")["state"] == "retrying"
        assert both.flow("orders")["depth"] == 2
        await both.send(john, "other", b"2")
        await until(lambda: both.away.depth("other") == 2)
        assert both.away.depth("orders") == 0
        await both.away.rule(SYNCS, OTHERS, SENDS)
        await until(lambda: both.away.depth("orders") == 2)
        await until(lambda: both.flow("orders")["error"] is None)
        assert list(both.away.node.registry.sessions) == [connection]


async def test_a_full_target_blocks_one_flow_until_it_has_space(tmp_path: Path) -> None:
    async with pair(tmp_path) as both, both.home.stomp("john") as john, both.away.stomp("john") as there:
        await both.away.change(destinations=limits(max_messages=2))
        await both.send(john, "orders", *(str(number) for number in range(5)))
        await both.send(john, "other", b"1")
        await until(lambda: both.flow("orders")["error"])
        assert both.flow("orders")["error"]["code"] == "TARGET_FULL"
        await until(lambda: both.away.depth("other") == 1)
        flow = both.flow("orders")
        assert (flow["accepted"], flow["depth"]) == (2, 3)
        await both.away.change(destinations=limits(max_messages=100))
        assert await receive(there, "orders", 5) == [str(number).encode() for number in range(5)]
        await until(lambda: both.flow("orders")["depth"] == 0)
        flow = both.flow("orders")
        assert flow["sent"] == flow["accepted"] + flow["refused"] + flow["unanswered"]
        assert (flow["accepted"], flow["duplicate"], flow["gap"]) == (5, 0, 0)


async def test_a_message_refused_too_often_is_dead_lettered_if_configured(tmp_path: Path) -> None:
    async with pair(tmp_path, dead_letter_after=3, retry_s=0.1) as both, both.home.stomp("john") as john:
        await both.away.change(destinations=limits(max_message_bytes=10))
        await both.send(john, "orders", b"1", b"much too long", b"2")
        await until(lambda: both.flow("orders")["accepted"] == 2)
        flow = both.flow("orders")
        assert (flow["accepted"], flow["refused"], flow["dead_lettered"]) == (2, 3, 1)
        assert ("dead_lettered", "orders", "TOO_LARGE") in events(both)
        async with both.home.stomp("admin") as admin:
            dead = f"{both.source('orders')}.dead"
            async with admin.subscribe(dead) as messages:
                letter = await anext(messages)
        assert letter.body == b"much too long"
        assert letter.headers["dead-reason"] == "UNDELIVERABLE"
        assert "refused 3 times by oslo" in letter.headers["dead-detail"]
        assert both.home.depth(f"{both.source('orders').removeprefix('/queue/')}.dead") <= 1


async def test_a_refused_message_blocks_its_flow_by_default(tmp_path: Path) -> None:
    async with pair(tmp_path, retry_s=0.05) as both, both.home.stomp("john") as john:
        await both.away.change(destinations=limits(max_message_bytes=10))
        await both.send(john, "orders", b"much too long", b"2")
        await until(lambda: both.flow("orders")["refused"] > 20)
        assert both.flow("orders")["error"]["code"] == "TOO_LARGE"
        assert both.flow("orders")["depth"] == 2
        assert both.away.depth("orders") == 0
        await both.away.change(destinations=limits(max_message_bytes=100))
        await until(lambda: both.away.depth("orders") == 2)


@pytest.mark.parametrize("dead_letter_after", [0, 2])
async def test_a_body_that_is_too_large_there_costs_no_connection(
    tmp_path: Path, dead_letter_after: int
) -> None:
    async with (
        small_node(tmp_path / "away", policy_of(users=USERS), name="away", max_body_bytes=10_000) as away,
        small_node(tmp_path / "home", policy_of(users=USERS), name="home") as home,
        home.stomp("john") as john,
    ):
        both = Pair(home, away)
        await both.bridges(remote_of(away, dead_letter_after=dead_letter_after))
        await both.send(john, "orders", b"0", b"1", b"x" * 10_001, b"2")
        await until(lambda: ("refused", "orders", "TOO_LARGE") in events(both))
        for number in range(3):
            await both.send(john, "other", str(number))
            async with away.stomp("john") as there:
                assert await receive(there, "other", 1) == [str(number).encode()]
        await until(lambda: away.depth("orders") == (3 if dead_letter_after else 2))
        await until(lambda: both.flow("orders")["depth"] == (0 if dead_letter_after else 2))
        flow = both.flow("orders")
        assert flow["dead_lettered"] == (1 if dead_letter_after else 0)
        if not dead_letter_after:
            assert flow["error"]["code"] == "TOO_LARGE"
        lines = home.node.features.bridges.supervisor.events_of("oslo") or ()
        connected = [event for event in lines if event["event"] == "connected"]
        assert [event["times"] for event in connected] == [1]


async def test_too_many_headers_for_the_target_are_an_error_of_their_flow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with (
        small_node(tmp_path / "away", policy_of(users=USERS), name="away") as away,
        small_node(tmp_path / "home", policy_of(users=USERS), name="home") as home,
        home.stomp("john") as john,
    ):
        both = Pair(home, away)
        # John has logged in; the bridge has not.
        monkeypatch.setattr(opening, "MAX_HEADERS", 20)
        await both.bridges(remote_of(away, dead_letter_after=2))
        await both.send(john, "orders", b"0", headers={f"h{number}": "x" for number in range(20)})
        await both.send(john, "orders", b"1")
        await both.send(john, "other", b"0")
        await until(lambda: away.depth("orders") == 1 and away.depth("other") == 1)
        await until(lambda: both.flow("orders")["dead_lettered"] == 1)
        assert ("dead_lettered", "orders", "TARGET_REFUSED") in events(both)


async def test_one_bridge_reconnects_and_the_other_keeps_its_socket(tmp_path: Path) -> None:
    async with pair(tmp_path) as both, both.home.stomp("john") as john, small_broker() as elsewhere:
        oslo = remote_of(both.away)
        rome = remote_of(both.away, "rome")
        await both.bridges(oslo, rome)
        await both.send(john, "a", b"1")
        await john.send(both.source("b", "rome"), b"1")
        await until(lambda: both.away.depth("a") == both.away.depth("b") == 1)
        before = set(both.away.node.registry.sessions)
        assert len(before) == 2
        await both.bridges(
            dataclasses.replace(oslo, idle_s=99.0),
            dataclasses.replace(rome, port=elsewhere.port, user="anna", password=PASSWORD),
        )
        await john.send(both.source("b", "rome"), b"2")
        await until(lambda: both.flow("b", "rome")["accepted"] == 2)
        await both.send(john, "a", b"2")
        await until(lambda: both.away.depth("a") == 2)
        assert len(set(both.away.node.registry.sessions) & before) == 1
        assert both.away.depth("b") == 1
        assert elsewhere.engine.broker.destinations.queues["/queue/b"].depth == 1


async def test_a_connection_to_a_silent_remote_broker_is_stalled_and_closed(tmp_path: Path) -> None:
    connections = 0

    async def be_deaf(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        await reader.readuntil(b"\0")
        writer.write(b"CONNECTED\nversion:1.2\n\n\0")
        while await reader.read(1000):
            pass
        writer.close()

    server = await asyncio.start_server(be_deaf, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server, pair(tmp_path, port=port, stalled_s=0.3) as both, both.home.stomp("john") as john:
        await both.send(john, "orders", b"1")
        await until(lambda: both.flow("orders")["state"] == "stalled")
        assert both.flow("orders")["error"]["code"] == "STALLED"
        await until(lambda: connections > 1)
        assert ("stalled", "orders", "STALLED") in events(both)
        assert both.flow("orders")["depth"] == 1
        await both.change()
        await until(lambda: both.away.depth("orders") == 1)
        await until(lambda: both.flow("orders")["state"] == "running")


async def test_bodies_on_their_way_are_bounded(tmp_path: Path) -> None:
    async with pair(tmp_path) as both, proxy(both.away.node.stomp_port or 0) as network:
        await both.change(port=network.port)
        async with both.home.stomp("john") as john, both.away.stomp("john") as there:
            await both.send(john, "orders", b"first")
            await until(lambda: both.flow("orders")["accepted"] == 1)
            network.back.hold()
            bodies = [bytes([number]) * 500_000 for number in range(60)]
            await both.send(john, "orders", *bodies)
            await until(lambda: both.flow("orders")["in_flight"] > 10)
            assert both.flow("orders")["in_flight"] <= FLIGHT_BYTES // 500_000 + 1
            network.back.release()
            assert await receive(there, "orders", 61) == [b"first", *bodies]


async def test_bodies_on_their_way_of_all_flows_are_bounded_and_none_starves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker_app.features.bridge.pipe.PIPE_BYTES", 2_000_000)
    queues = [f"q{number}" for number in range(10)]
    async with pair(tmp_path) as both, proxy(both.away.node.stomp_port or 0) as network:
        await both.change(port=network.port)
        async with both.home.stomp("john") as john, both.away.stomp("john") as there:
            for queue in queues:
                await both.send(john, queue, b"first")
            await until(lambda: all(both.flow(queue)["accepted"] == 1 for queue in queues))
            network.back.hold()
            bodies = [bytes([number]) * 200_000 for number in range(20)]
            for queue in queues:
                await both.send(john, queue, *bodies)
            await until(lambda: all(both.flow(queue)["in_flight"] for queue in queues))
            assert sum(both.flow(queue)["in_flight"] for queue in queues) <= 11 + 9
            network.back.release()
            for queue in queues:
                assert await receive(there, queue, 21) == [b"first", *bodies]
            await until(lambda: not any(both.flow(queue)["depth"] for queue in queues))
            assert network.accepted == 1


async def test_a_slowly_transferred_body_is_not_a_stall(tmp_path: Path) -> None:
    async with pair(tmp_path) as both, proxy(both.away.node.stomp_port or 0, 65_536) as network:
        await both.change(port=network.port, stalled_s=1.0)
        async with both.home.stomp("john") as john, both.away.stomp("john") as there:
            await both.send(john, "orders", b"first")
            await both.send(john, "other", b"first")
            await until(lambda: both.flow("orders")["accepted"] == both.flow("other")["accepted"] == 1)
            network.out.rate = 300_000
            body = bytes(1024 * 1024)
            await both.send(john, "orders", body)
            await both.send(john, "other", b"behind it")
            assert await receive(there, "orders", 2) == [b"first", body]
            assert await receive(there, "other", 2) == [b"first", b"behind it"]
            assert network.accepted == 1
            assert both.flow("orders")["unanswered"] == both.flow("other")["unanswered"] == 0


async def test_a_transfer_that_stops_within_a_long_body_is_stalled(tmp_path: Path) -> None:
    async with pair(tmp_path) as both, proxy(both.away.node.stomp_port or 0, 65_536) as network:
        await both.change(port=network.port, stalled_s=0.5)
        async with both.home.stomp("john") as john:
            network.out.rate = 300_000
            await both.send(john, "orders", bytes(4 * 1024 * 1024))
            await until(lambda: network.out.passed > 100_000)
            network.out.hold()
            await until(lambda: ("stalled", "orders", "STALLED") in events(both))
            network.heal()
            await until(lambda: both.away.depth("orders") == 1)


async def test_a_refused_message_is_sent_once_for_each_attempt(tmp_path: Path) -> None:
    async with pair(tmp_path, retry_s=0.05) as both, both.home.stomp("john") as john:
        await both.away.change(destinations=limits(max_messages=1))
        await both.send(john, "orders", *(str(number) for number in range(200)))
        await until(lambda: both.flow("orders")["refused"] > 5)
        flow = both.flow("orders")
        assert flow["sent"] - flow["refused"] <= 200
        before = both.flow("orders")["sent"]
        refused = both.flow("orders")["refused"]
        await until(lambda: both.flow("orders")["refused"] >= refused + 5)
        assert both.flow("orders")["sent"] - before <= 7
        queue = both.home.node.broker.destinations.queues[both.source("orders")]
        attempts = [message.attempts for lane in queue.lanes for message in lane.in_memory()]
        assert sum(attempts) - max(attempts) < 2 * 200
        happened = [event for event, queue, _ in events(both) if queue == "orders"]
        assert happened.count("refused") == 1
        await both.away.change(destinations=limits(max_messages=1000))
        await until(lambda: both.away.depth("orders") == 200)
        await until(lambda: events(both)[-1][0] == "recovered")
