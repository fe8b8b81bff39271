"""Orders of operators in an enhanced cluster: takeovers by force, shutdowns without one, and a restart."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.conftest import BROKERS
from tests.cluster.test_messages_across_brokers import bodies, take
from tests.enhanced_cluster.connected import RawStomp, connected
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
from tests.support.awaiting import becomes, until
from tests.support.broker_process import Reply
from tests.support.patience import patient
from tests.support.redis import redis_server

pytestmark = pytest.mark.process

TAKEOVER, REMOVE = "/api/v1/cluster/takeover", "/api/v1/cluster/remove"


@pytest.fixture
def members(tmp_path: Path) -> Iterator[Members]:
    with redis_server() as server, running(Members(tmp_path, server.url, BROKERS)) as made:
        yield made


@pytest.fixture
def restartable(tmp_path: Path) -> Iterator[Members]:
    """Members of which b1 can start itself again."""
    with redis_server() as server:
        made = Members(tmp_path, server.url, BROKERS, program=subprocess.Popen)
        next(iter(made)).command = (sys.executable, "-m", "broker_app.cli", "up")  # as a restart needs it
        with running(made):
            yield made


def names(*members: MemberProcess) -> list[str]:
    return [member.data.name for member in members]


async def order(broker: MemberProcess, **body: object) -> Reply:
    return await asyncio.to_thread(broker.request, "POST", TAKEOVER, json_body=body)


async def test_a_member_that_is_alive_is_taken_over_by_force_alone_and_sends_its_clients_to_the_taker(
    members: Members,
) -> None:
    b1, b2, *others = members
    await becomes(lambda: linked(b2), names(b1, *others))
    strange = await order(b2, member="b9")
    listed = f"there are {', '.join(names(*members))}"
    assert (strange.status, listed in strange.json()["detail"]) == (404, True)
    itself = await order(b2, member="b2")
    assert (itself.status, "itself" in itself.json()["detail"]) == (409, True)

    async with b1.stomp() as client:
        await client.send(QUEUE, b"1")
        await client.send("/queue/held", b"in a transaction")
    stomp = await RawStomp.connect(b1)
    await stomp.send("SUBSCRIBE\nid:s\ndestination:/queue/held\nack:client-individual\n\n\0")
    delivery = await stomp.frame()
    ack = next(line for line in delivery.split("\n") if line.startswith("ack:")).removeprefix("ack:")
    await stomp.send("BEGIN\ntransaction:t\n\n\0")
    await stomp.send(f"ACK\nid:{ack}\ntransaction:t\n\n\0")
    await stomp.send(f"SEND\ndestination:{QUEUE}\ntransaction:t\n\nnever committed\0")
    await stomp.send("SEND\ndestination:/topic/news\nreceipt:r\n\nall before is taken\0")
    assert "receipt-id:r" in await stomp.frame()
    async with connected(b1, stomp) as clients:
        alive = await order(b2, member="b1")
        assert (alive.status, "may be alive" in alive.json()["detail"]) == (409, True)
        assert alive.json()["seen_s"] < patient(3.0)

        done = await order(b2, member="b1", force=True, reason="it hangs")
        assert done.status == 200, done.body
        taken = done.json()
        assert (taken["member"], taken["taker"], taken["result"], taken["messages"]) == (
            "b1",
            "b2",
            "complete",
            2,
        )
        assert taken["why"] == "ordered by admin, by force"
        assert taken["lost"] == "no message; transactions that were open are rolled back"

        await clients.are_sent_to(b2)

    operating = dict.fromkeys(names(b2, *others), "OPERATING")
    await becomes(lambda: states(b2), {"b1": "TAKEOVER_COMPLETE", **operating})
    report = await cluster_of(b2)
    assert report["enhanced"]["takeovers"] == [taken]
    assert report["enhanced"]["worst_case_s"] == 4.0
    again = await order(b2, member="b1")
    assert (again.status, "b2 has taken over b1 already" in again.json()["detail"]) == (409, True)
    # What was not committed did not happen.
    async with (
        b2.stomp() as consumer,
        consumer.subscribe(QUEUE) as sent,
        consumer.subscribe("/queue/held") as held,
    ):
        assert bodies(await take(sent, 1)) == [b"1"]
        (message,) = await take(held, 1)
        assert (message.body, message.headers["redelivered"]) == (b"in a transaction", "true")


async def test_messages_of_a_member_that_is_shut_down_without_failover_wait_for_it_or_for_an_order(
    restartable: Members,
) -> None:
    b1, b2, *others = restartable
    b3 = others[0]
    await becomes(lambda: linked(b2), names(b1, *others))
    async with b1.stomp() as client:
        await client.send(QUEUE, b"1")

    restarted = b1.request("POST", "/api/v1/broker/restart", json_body={"name": "b1"})
    assert restarted.status == 202
    await until(lambda: b1.log.count(" serves as the active one") == 2, 60.0)
    assert not await adopted(b2, *others), "a restart is no failure"
    assert b1.request("GET", "/api/v1/queues/orders").json()["depth"] == 1

    async def state_of_b1() -> str:
        return (await states(b2))["b1"]

    down = {"name": "b1", "no_failover": True}
    assert b1.request("POST", "/api/v1/shutdown", json_body=down).status == 202
    await becomes(state_of_b1, "BROKER_DOWN")
    b3.kill()  # it is taken over after b1 would have been
    # Its journal is empty, so that its taker has it for a moment only.
    await becomes(lambda: taken_over(b2), ["b3"], 30)
    assert await state_of_b1() == "BROKER_DOWN"
    done = await order(b2, member="b1")
    assert (done.status, done.json()["messages"]) == (200, 1)
    async with b2.stomp() as consumer, consumer.subscribe(QUEUE) as messages:
        assert bodies(await take(messages, 1)) == [b"1"]

    async def remove_b3() -> int:
        """The answer to the order: it is refused until the journal of b3 is drained."""
        body = {"member": "b3", "reason": "its machine is sold"}
        return (await asyncio.to_thread(b2.request, "POST", REMOVE, json_body=body)).status

    await becomes(remove_b3, 200)
    assert "b3" not in await states(b2)

    async def b3_is_linked_to() -> bool:
        return any(link["broker"] == "b3" for link in (await cluster_of(b2))["links"])

    await becomes(b3_is_linked_to, False)
