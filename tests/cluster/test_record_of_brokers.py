"""Declared destinations and durable subscriptions of real brokers: propagated, refused without the keeper."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import mom_client
from broker_app.cli.base.failures import OK
from tests.cli.conftest import CommandLine
from tests.cluster.conftest import BROKERS, SECRET
from tests.cluster.whole_brokers import client_of, settings, whole_brokers
from tests.support.awaiting import becomes
from tests.support.broker_process import BrokerProcess, Reply
from tests.support.node_process import NodeProcess, Nodes
from tests.support.polling import poll
from tests.support.ports import reserve_ports

#: seconds within which a change is known at all brokers
WITHIN_S = 2.0


@pytest.fixture(scope="module")
def several(processes: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[BrokerProcess]]:
    """Brokers of which the first is the keeper."""
    with whole_brokers(tmp_path_factory.mktemp("brokers"), BROKERS, keeper=True) as brokers:
        yield brokers


def limit(broker: BrokerProcess, name: str) -> int | None:
    """The limit of messages of a queue; None if there is no such queue."""
    own = settings(broker, name)
    return int(own["max_messages"]["value"]) if own is not None else None


def declare(broker: BrokerProcess, name: str, **settings: Any) -> Reply:
    return broker.request("PUT", f"/api/v1/queues/{name}", json_body=settings, if_none_match="*")


def accepts_changes(broker: BrokerProcess) -> bool:
    return not broker.request("GET", "/api/v1/cluster").json()["keeper_state"]


def subscriptions(broker: BrokerProcess) -> list[str]:
    return [row["name"] for row in broker.request("GET", "/api/v1/subscriptions").json()["items"]]


def last_event(broker: BrokerProcess) -> Any:
    return broker.request("GET", "/api/v1/events?kind=cluster&limit=1").json()["items"][0]


async def subscribe(broker: BrokerProcess, name: str) -> None:
    """Create a durable subscription, and leave it."""
    async with client_of(broker) as client, client.subscribe("/topic/prices", durable=name):
        pass


async def use(broker: BrokerProcess, other: BrokerProcess, durable: str, queue: str) -> None:
    """Send at one broker and receive at the other: by a durable subscription that exists, a queue of first
    use, and a temporary one."""
    async with (
        client_of(broker) as client,
        client_of(other) as elsewhere,
        elsewhere.subscribe("/topic/prices", durable=durable) as prices,
        elsewhere.subscribe(f"/queue/{queue}") as calls,
    ):
        await client.send("/topic/prices", b"11")
        price = await anext(prices)
        await price.ack()
        asked = asyncio.create_task(client.request(f"/queue/{queue}", b"ping"))
        call = await anext(calls)
        await call.reply(b"pong")
        await call.ack()
        assert (price.body, (await asked).body) == (b"11", b"pong")


def test_what_is_declared_or_changed_at_one_broker_is_so_at_all_within_two_seconds(
    several: list[BrokerProcess],
) -> None:
    """CL-T02."""
    b1, b2, b3, *_ = several
    for broker in several:
        poll(lambda broker=broker: accepts_changes(broker))  # type: ignore[misc]
    assert declare(b2, "bills", max_messages=5, limit_behavior="REJECT_NEWEST").status == 201
    own = settings(b2, "bills")
    poll(lambda: [settings(broker, "bills") for broker in several] == [own] * BROKERS, WITHIN_S)
    changed = b3.request("PATCH", "/api/v1/queues/bills", json_body={"max_messages": 7}, if_match="*")
    assert changed.status == 200, changed.body
    poll(lambda: limit(b1, "bills") == 7, WITHIN_S)
    assert b1.request("DELETE", "/api/v1/queues/bills", if_match="*").status == 204
    poll(lambda: [settings(broker, "bills") for broker in several] == [None] * BROKERS, WITHIN_S)


async def test_what_is_declared_or_durable_is_the_same_at_all_brokers_until_it_is_deleted(
    several: list[BrokerProcess],
) -> None:
    b1, b2, *_ = several
    poll(lambda: accepts_changes(b2))
    assert declare(b2, "orders", max_messages=5).status == 201
    poll(lambda: settings(b1, "orders") is not None)
    await subscribe(b2, "audit")
    poll(lambda: subscriptions(b1) == ["audit"])
    entry = b1.request("GET", "/api/v1/audit?limit=1&kind=destinations").json()["items"][0]
    assert (entry["author"], entry["via"], entry["reason"]) == ("b2", "cluster", "changed at broker b2")

    changed = b1.request("PATCH", "/api/v1/queues/orders", json_body={"max_messages": 7}, if_match="*")
    assert changed.status == 200, changed.body
    poll(lambda: settings(b2, "orders") == settings(b1, "orders"))
    b2.request("POST", "/api/v1/queues/orders/messages", b"kept")
    assert b2.request("DELETE", "/api/v1/queues/orders", if_match="*").status == 409
    assert b1.request("POST", "/api/v1/queues/orders/messages", b"kept").status == 201
    assert settings(b1, "orders") == settings(b2, "orders") != {}, "it was deleted nowhere"
    assert b2.request("DELETE", "/api/v1/queues/orders?force=true", if_match="*").status == 204
    poll(lambda: last_event(b1)["event"] == "not deleted")
    assert last_event(b1)["name"] == "/queue/orders"
    assert "b2 has deleted it" in last_event(b1)["detail"]
    assert "1 waiting" in last_event(b1)["detail"]
    assert b1.request("DELETE", "/api/v1/subscriptions/audit").status == 204
    poll(lambda: subscriptions(b2) == [])


def record_at(broker: BrokerProcess) -> tuple[str, list[Any]]:
    """The digest of the change record of a broker, and its entries."""
    entries = broker.request("GET", "/api/v1/cluster/record").json()["items"]
    return broker.request("GET", "/api/v1/cluster").json()["record_digest"], entries


async def test_a_backup_restored_at_the_keeper_brings_back_at_all_brokers_what_was_changed_or_deleted(
    several: list[BrokerProcess], tmp_path: Path
) -> None:
    b1, b2, b3, *_ = several
    mom, file = CommandLine(tmp_path), str(tmp_path / "backup")
    mom.about(b1)
    poll(lambda: all(map(accepts_changes, several)))
    for name in ("changed", "deleted"):
        assert declare(b2, name, max_messages=5).status == 201
    await subscribe(b2, "ended")
    names = ("changed", "deleted", "new")
    poll(lambda: all("ended" in subscriptions(broker) for broker in several))
    poll(lambda: all(settings(broker, "deleted") is not None for broker in several))
    assert mom("cluster", "record", "backup", file).code == OK

    assert (
        b3.request("PATCH", "/api/v1/queues/changed", json_body={"max_messages": 7}, if_match="*").status
        == 200
    )
    assert b3.request("DELETE", "/api/v1/queues/deleted", if_match="*").status == 204
    assert b3.request("DELETE", "/api/v1/subscriptions/ended").status == 204
    assert declare(b3, "new", max_messages=9).status == 201
    poll(lambda: all([limit(broker, name) for name in names] == [7, None, 9] for broker in several))
    poll(lambda: not any("ended" in subscriptions(broker) for broker in several))

    restored = mom("cluster", "record", "restore", file)
    assert (restored.code, "3 entries were changed" in restored.err) == (OK, True), restored.err
    poll(lambda: all([limit(broker, name) for name in names] == [5, 5, 9] for broker in several))
    poll(lambda: all("ended" in subscriptions(broker) for broker in several))
    own = record_at(b1)
    assert [record_at(broker) for broker in several] == [own] * BROKERS


async def test_without_the_keeper_changes_are_refused_and_all_else_goes_on(
    several: list[BrokerProcess],
) -> None:
    """CL-T07."""
    b1, *others = several
    b2, b3, *_ = others
    poll(lambda: all(map(accepts_changes, others)))
    await subscribe(b2, "before")
    declare(b2, "declared")
    poll(lambda: all(settings(one, "declared") is not None for one in several))
    poll(lambda: all("before" in subscriptions(one) for one in several))
    b1.terminate()
    poll(lambda: not any(map(accepts_changes, others)))
    for refused in (
        declare(b2, "refused"),
        declare(b3, "refused"),
        b2.request("DELETE", "/api/v1/queues/declared", if_match="*"),
        b3.request("DELETE", "/api/v1/subscriptions/before"),
    ):
        assert refused.status == 503
        assert refused.json()["type"].endswith("/master-unavailable")
        assert "MASTER_UNAVAILABLE" in refused.json()["detail"]
    with pytest.raises(mom_client.Refused, match="MASTER_UNAVAILABLE"):
        await subscribe(b2, "refused")
    assert settings(b2, "declared") is not None
    assert b2.request("POST", "/api/v1/queues/made-by-its-use/messages", b"hello").status == 201
    await use(b2, b3, "before", "calls")
    for broker in others[1:]:
        broker.kill()  # they would have the clients that b2 refuses from now on
    await _a_broker_waits_for_the_keeper_when_it_starts(b1, b2)
    assert settings(b1, "made-by-its-use") is None


async def _a_broker_waits_for_the_keeper_when_it_starts(b1: BrokerProcess, b2: BrokerProcess) -> None:
    """CL-T08, with the brokers of the test before."""
    b2.terminate()
    b2.start(standby=True)
    ready = b2.request("GET", "/api/v1/health/ready")
    assert (ready.status, ready.json()["type"]) == (503, "/docs/problems/master-unavailable")
    with pytest.raises(mom_client.ClientError, match="waits for the master broker"):
        await subscribe(b2, "before")
    sent = b2.request("POST", "/api/v1/queues/orders/messages", b"early")
    assert sent.status == 503
    b1.start()
    assert declare(b1, "made-while-b2-was-away").status == 201
    poll(lambda: b2.request("GET", "/api/v1/health/ready").status == 200, 5)
    await subscribe(b2, "before")
    poll(lambda: settings(b2, "made-while-b2-was-away") is not None)


async def test_another_broker_becomes_the_keeper_while_all_run(nodes: Nodes) -> None:
    ports = reserve_ports(2)
    addresses = tuple(f"127.0.0.1:{port}" for port in ports)
    b1, b2 = (
        nodes.node(
            f"b{at}",
            cluster_port=port,
            cluster=addresses,
            cluster_secret=SECRET,
            cluster_keeper=addresses[0],
            cluster_dynamic_keeper=True,
        )
        for at, port in enumerate(ports, 1)
    )
    b1.start()
    b2.start()

    async def keeper(node: NodeProcess) -> tuple[str, str]:
        async with node.rest() as http:
            found = (await http.get("/cluster")).json()
        return found["keeper"], found["keeper_state"]

    async with b1.rest() as http, b2.rest() as at_b2:
        await becomes(lambda: keeper(b2), ("b1", ""))
        refused = await at_b2.put("/cluster/keeper", json={"broker": "b2"})
        assert refused.json()["result"] == "NOT_ALLOWED"
        changed = await http.put("/cluster/keeper", json={"broker": "b2"})
        assert changed.json() == {"result": "OK", "keeper": "b2"}
    await becomes(lambda: keeper(b2), ("b2", ""))
    b1.kill()
    async with b2.stomp() as client, client.subscribe("/topic/prices", durable="of-b2"):
        """It needs no other broker."""
    b1.start()
    await becomes(lambda: keeper(b1), ("b2", ""))
