"""Mirrors as their users see them: refusals, takeovers, orders of operators, and what is lost."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import time
from typing import Any

import pytest

import mom_client
from tests.support.broker_process import BrokerProcess
from tests.support.mirrors import (
    LEASE_S,
    Mirrors,
    is_followed,
    login_answer,
    serves,
    status,
    wait_until_serving,
)
from tests.support.polling import poll

pytestmark = pytest.mark.process


def client(broker: BrokerProcess, **options: Any) -> mom_client.Client:
    address = f"stomp://{broker.host}:{broker.stomp_port}"
    return mom_client.connect(
        address, login=broker.user, passcode=broker.password, reconnect=False, **options
    )


async def receive(queue: str, count: int, mirrors: Mirrors) -> list[mom_client.Message]:
    """The next messages of a queue, acknowledged."""
    async with mirrors.client() as mom, mom.subscribe(queue) as messages:
        found = []
        for _ in range(count):
            message = await messages.get(20)
            await message.ack()
            found.append(message)
        return found


def events(broker: BrokerProcess) -> list[dict[str, Any]]:
    found = broker.request("GET", "/api/v1/events?kind=mirrors").json()["items"]
    return list(found)


async def test_a_mirror_refuses_clients_and_names_the_broker_that_serves(mirrors: Mirrors) -> None:
    main, mirror = mirrors.pair()
    active = f"stomp://127.0.0.1:{main.stomp_port},ws://127.0.0.1:{main.port}/ws"
    error = login_answer(mirror)
    assert error.startswith(b"ERROR\n")
    assert f"\nactive:{active.replace(':', chr(92) + 'c')}\n".encode() in error
    assert b"\nreason:MAIN_ACTIVE\n" in error
    for path in ("/api/v1/queues", "/health/ready", "/api/v1/queues/a/messages"):
        reply = mirror.request("GET", path)
        assert (reply.status, reply.json()["reason"]) == (503, "MAIN_ACTIVE")
        assert reply.json()["active"] == active
        assert reply.headers["retry-after"] == "1"
    for address in (f"stomp://127.0.0.1:{mirror.stomp_port}", f"ws://127.0.0.1:{mirror.port}/ws"):
        async with mom_client.connect(address, login=main.user, passcode=main.password) as mom:
            assert mom.address in active.split(",")
    page = mirror.request("GET", "/console/", accept="text/html")
    assert page.status == 503
    assert f'href="{main.url}"'.encode() in page.body


def test_a_client_that_writes_its_login_in_pieces_can_read_the_refusal(mirrors: Mirrors) -> None:
    _, mirror = mirrors.pair()
    with socket.create_connection((mirror.host, mirror.stomp_port), 10) as connection:
        connection.sendall(b"CONNECT\n")
        found = b""
        while data := connection.recv(4096):
            found += data
        for piece in (b"accept-version:1.2\n", b"host:/\n", b"\n", b"\0"):
            connection.sendall(piece)  # a reset would raise an error
    assert b"\nreason:MAIN_ACTIVE\n" in found


def test_clients_without_login_get_the_list_of_brokers_from_each(mirrors: Mirrors) -> None:
    main, mirror = mirrors.pair()
    poll(lambda: len(main.request("GET", "/failover-list", authorization="").json()["brokers"]) == 2)
    for broker in (main, mirror):
        found = broker.request("GET", "/failover-list", authorization="").json()
        assert [(one["role"], one["state"]) for one in found["brokers"]] == [(1, "active"), (-1, "standby")]
        assert found["uris"][0] == f"stomp://127.0.0.1:{main.stomp_port}"
        assert f"stomp://127.0.0.1:{mirror.stomp_port}" in found["uris"]
    assert (mirror.request("GET", "/health/live").status, serves(main), serves(mirror)) == (200, True, False)


async def test_connected_and_a_topic_name_the_brokers_of_now(mirrors: Mirrors) -> None:
    main, mirror = mirrors.make(), mirrors.make()
    main.start()
    async with mirrors.client() as mom, mom.subscribe("/topic/$mom.failover", ack="auto") as lists:
        assert mom.server["mom-failover"].split(",")[0] == f"stomp://127.0.0.1:{main.stomp_port}"
        await asyncio.to_thread(mirror.start, standby=True)
        message = await lists.get(10)
        assert f"stomp://127.0.0.1:{mirror.stomp_port}" in message.body.decode()


async def test_a_killed_broker_is_replaced_and_nothing_persistent_is_lost(mirrors: Mirrors) -> None:
    main, mirror = mirrors.pair()
    async with client(main) as mom:
        for number in range(200):
            await mom.send("/queue/orders", str(number))
        for number in range(50):
            await mom.send("/queue/quotes", str(number), persistent=False)
    poll(lambda: status(main)["would_be_lost"] == {"persistent": 0, "non_persistent": 50})
    poll(lambda: status(mirror)["would_be_lost"]["non_persistent"] == 50)
    main.kill()
    killed_at = time.monotonic()
    found = await receive("/queue/orders", 200, mirrors)
    assert time.monotonic() - killed_at < LEASE_S + 2
    assert [int(one.body) for one in found] == list(range(200))
    takeover = status(mirror)["takeovers"][0]
    assert (takeover["cause"], takeover["non_persistent_lost"]) == ("lease-expired", 50)
    (event,) = [one for one in events(mirror) if one["event"] == "took over"]
    assert (event["code"], event["facts"]["non_persistent_lost"]) == ("LEASE_EXPIRED", 50)


async def test_deliveries_that_were_not_acknowledged_come_again_and_are_marked(mirrors: Mirrors) -> None:
    main, _ = mirrors.pair()
    async with client(main) as mom:
        for number in range(10):
            await mom.send("/queue/orders", str(number))
        async with mom.subscribe("/queue/orders", credit=5) as messages:
            first = [await messages.get(10) for _ in range(5)]
            main.kill()
    assert not any(one.headers.get("redelivered") == "true" for one in first)
    found = await receive("/queue/orders", 10, mirrors)
    assert [int(one.body) for one in found] == list(range(10))
    assert [one.headers.get("redelivered") == "true" for one in found[:5]] == [True] * 5


async def test_a_clean_stop_hands_over_at_once(mirrors: Mirrors) -> None:
    main, mirror = mirrors.pair()
    async with client(main) as mom:
        await mom.send("/queue/orders", "1")
    main.terminate()
    assert [int(one.body) for one in await receive("/queue/orders", 1, mirrors)] == [1]
    takeover = status(mirror)["takeovers"][0]
    assert (takeover["cause"], takeover["former"]) == ("stopped", f"127.0.0.1:{main.port}")
    assert takeover["took_s"] < 0.5


async def test_the_former_main_follows_when_it_is_started_again_and_may_be_mirrored_on(
    mirrors: Mirrors,
) -> None:
    main, mirror = mirrors.pair()
    third = mirrors.make()
    third.start(standby=True)
    main.kill()
    poll(lambda: serves(mirror) or serves(third), 20)
    second, last = (mirror, third) if serves(mirror) else (third, mirror)
    async with client(second) as mom:
        await mom.send("/queue/orders", "1")
    main.start(standby=True)
    assert not serves(main)
    second.kill()
    poll(lambda: serves(main) or serves(last), 20)
    assert [int(one.body) for one in await receive("/queue/orders", 1, mirrors)] == [1]


def test_a_mirror_without_a_main_serves_and_says_so(mirrors: Mirrors) -> None:
    main, mirror = mirrors.make(), mirrors.make()
    mirror.start()
    (event,) = [one for one in events(mirror) if one["event"] == "active without main"]
    assert event["code"] == "MIRROR_ACTIVE_WITHOUT_MAIN"
    main.start(standby=True)
    assert not serves(main)
    assert serves(mirror)


def test_a_planned_switchover_loses_nothing_and_the_former_holder_follows(mirrors: Mirrors) -> None:
    main, mirror = mirrors.pair()
    poll(lambda: is_followed(main))
    path = f"/api/v1/mirrors/{mirrors.name}/switchover"
    preview = main.request("POST", path, json_body={"dry_run": True})
    assert preview.json() == {
        "to": f"127.0.0.1:{mirror.port}",
        "would_be_lost": {"persistent": 0, "non_persistent": 0},
        "dry_run": True,
    }
    assert main.request("POST", path, json_body={"reason": "new kernel"}).status == 202
    wait_until_serving(mirror)
    assert status(mirror)["takeovers"][0]["cause"] == "switchover"
    poll(lambda: is_followed(mirror))
    assert not serves(main)
    # And back, ordered at the standby.
    assert main.request("POST", path, json_body={"to": f"127.0.0.1:{main.port}"}).status == 202
    wait_until_serving(main)
    assert [one["cause"] for one in status(main)["takeovers"]] == ["switchover", "switchover", "started"]


def test_a_forced_takeover_states_the_loss_and_fences_the_holder(mirrors: Mirrors) -> None:
    main, mirror = mirrors.pair()
    poll(lambda: is_followed(main))
    path = f"/api/v1/mirrors/{mirrors.name}/takeover"
    order = {"expect_epoch": status(mirror)["lease"]["epoch"], "reason": "it hangs"}
    refused = mirror.request("POST", path, json_body=order)
    assert refused.status == 409
    assert "non-persistent" in refused.json()["detail"]
    stale = mirror.request("POST", path, json_body={**order, "expect_epoch": 99, "accept_loss": True})
    assert (stale.status, "epoch is 1, not 99" in stale.json()["detail"]) == (409, True)
    assert mirror.request("POST", path, json_body={**order, "accept_loss": True}).status == 202
    wait_until_serving(mirror)
    takeover = status(mirror)["takeovers"][0]
    assert (takeover["cause"], takeover["reason"]) == ("forced", "it hangs")
    poll(lambda: not main.running)
    assert "has taken over the journal" in main.log


async def test_a_holder_that_was_paused_writes_nothing_and_sends_its_clients_to_the_taker(
    mirrors: Mirrors,
) -> None:
    main, mirror = mirrors.pair()
    async with client(main) as mom:
        await mom.send("/queue/orders", "before")
        os.kill(main.pid, signal.SIGSTOP)
        wait_until_serving(mirror)
        late = [mom.send_nowait("/queue/orders", f"late {number}") for number in range(20)]
        os.kill(main.pid, signal.SIGCONT)
        found = await asyncio.gather(*late, return_exceptions=True)
        assert all(isinstance(one, mom_client.ClientError) for one in found), found
    poll(lambda: not main.running)
    assert main.terminate() != 0
    assert f"127.0.0.1:{mirror.port}" in main.log
    assert [one.body for one in await receive("/queue/orders", 1, mirrors)] == [b"before"]
    assert mirror.request("GET", "/api/v1/queues/orders").json()["depth"] == 0


def test_orders_and_status_of_mirrors_are_for_administrators(mirrors: Mirrors) -> None:
    main, mirror = mirrors.pair()
    created = main.request(
        "PUT", "/api/v1/users/john", json_body={"password": "another horse battery"}, if_none_match="*"
    )
    assert created.status in (200, 201), created.body
    john = "Basic am9objphbm90aGVyIGhvcnNlIGJhdHRlcnk="
    poll(lambda: mirror.request("GET", "/api/v1/mirrors", authorization=john).status == 403)
    for broker in (main, mirror):
        assert broker.request("GET", "/api/v1/mirrors", authorization="").status == 401
        reply = broker.request(
            "POST", f"/api/v1/mirrors/{mirrors.name}/switchover", json_body={}, authorization=john
        )
        assert reply.status == 403


async def test_users_rules_and_bridges_are_those_of_the_broker_that_served(mirrors: Mirrors) -> None:
    main, mirror = mirrors.pair()
    assert (
        main.request(
            "PUT", "/api/v1/users/john", json_body={"password": "another horse battery"}, if_none_match="*"
        ).status
        == 201
    )
    rule = {"effect": "allow", "users": ["john"], "conditions": [{"destinations": ["/queue/johns"]}]}
    main.request("PUT", "/api/v1/rules/johns", json_body=rule, if_none_match="*")
    main.kill()
    wait_until_serving(mirror)
    john = mom_client.connect(
        f"stomp://{mirror.host}:{mirror.stomp_port}", login="john", passcode="another horse battery"
    )
    async with john as mom:
        await mom.send("/queue/johns", "hello")


def test_a_broker_without_a_shared_journal_has_no_mirrors(start_broker: Any) -> None:
    alone = start_broker()
    assert alone.request("GET", "/api/v1/mirrors").json() == {"items": []}
    found = alone.request("GET", "/failover-list", authorization="").json()
    assert found["brokers"] == []
    assert alone.request("GET", "/api/v1/mirrors/mom").status == 404
