"""Orders of operators in an enhanced cluster: takeovers by force, shutdowns without one, and a restart."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed
from websockets.typing import Subprotocol

from tests.cluster.test_messages_across_brokers import bodies, take
from tests.enhanced_cluster.members import (
    QUEUE,
    MemberProcess,
    Members,
    adopted,
    cluster_of,
    linked,
    running,
    states,
)
from tests.support.awaiting import becomes, until
from tests.support.broker_process import Reply
from tests.support.patience import patient
from tests.support.redis import redis_server

pytestmark = pytest.mark.process

TAKEOVER = "/api/v1/cluster/takeover"


async def taken_over(broker: MemberProcess) -> list[str]:
    """The members that were taken over so far, as a broker knows it."""
    async with broker.rest() as http:
        report = (await http.get("/cluster")).json()["enhanced"]
    return [takeover["member"] for takeover in report["takeovers"]]


@pytest.fixture
def members(tmp_path: Path) -> Iterator[Members]:
    with redis_server() as server, running(Members(tmp_path, server.url, 3)) as made:
        yield made


@pytest.fixture
def restartable(tmp_path: Path) -> Iterator[Members]:
    """Members of which b1 can start itself again."""
    with redis_server() as server:
        made = Members(tmp_path, server.url, 3, program=subprocess.Popen)
        next(iter(made)).command = (sys.executable, "-m", "broker_app.cli", "up")  # as a restart needs it
        with running(made):
            yield made


async def order(broker: MemberProcess, **body: object) -> Reply:
    return await asyncio.to_thread(broker.request, "POST", TAKEOVER, json_body=body)


async def last_event(http: httpx.AsyncClient, path: str) -> str:
    """The last event of a stream that its broker ends."""
    async with http.stream("GET", path, timeout=patient(30)) as reply:
        events = (await reply.aread()).decode().strip().split("\n\n")
    return events[-1]


async def all_of(client: ClientConnection) -> list[str]:
    """All that a WebSocket still gets, with the reason of its end."""
    said = []
    try:
        while True:
            said.append(str(await client.recv()))
    except ConnectionClosed as closed:
        return [*said, str(closed)]


class RawStomp:
    """A connection over TCP whose frames the test writes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @classmethod
    async def connect(cls, broker: MemberProcess) -> RawStomp:
        made = cls(*await asyncio.open_connection(broker.host, broker.stomp_port))
        await made.send(
            f"CONNECT\naccept-version:1.2\nhost:/\nlogin:{broker.user}\npasscode:{broker.password}\n\n\0"
        )
        assert (await made.frame()).startswith("CONNECTED")
        return made

    async def send(self, frame: str) -> None:
        self._writer.write(frame.encode())
        await self._writer.drain()

    def close(self) -> None:
        self._writer.close()

    async def frame(self) -> str:
        async with asyncio.timeout(patient(20)):
            return (await self._reader.readuntil(b"\0")).decode().strip("\0\n")


async def test_a_member_that_is_alive_is_taken_over_by_force_alone_and_sends_its_clients_to_the_taker(
    members: Members,
) -> None:
    b1, b2, _ = members
    await becomes(lambda: linked(b2), ["b1", "b3"])
    strange = await order(b2, member="b9")
    assert (strange.status, "there are b1, b2, b3" in strange.json()["detail"]) == (404, True)
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
    web_socket = f"ws://{b1.host}:{b1.port}/ws"
    login = httpx.BasicAuth(b1.user, b1.password)._auth_header
    async with (
        connect(
            web_socket,
            subprotocols=[Subprotocol("mom.v1.json")],
            additional_headers={"Authorization": login},
        ) as json_client,
        b1.rest() as http,
    ):
        poll = asyncio.create_task(
            http.post("/queues/empty/receive", json={"wait_s": 20}, timeout=patient(30))
        )
        events = asyncio.create_task(last_event(http, "/queues/empty/events"))
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

        # All clients of b1 are sent to the taker.
        address = f"stomp://{b2.host}:{b2.stomp_port}"
        while not (error := await stomp.frame()).startswith("ERROR"):
            # Until b1 notices that it has lost its journal, it is a member whose consumers b2 serves.
            assert "redelivered:true" in error
        stomp.close()
        assert address in error
        polled = await poll
        assert (polled.status_code, polled.headers["location"]) == (503, b2.url)
        assert address in polled.json()["active"]
        event = await events
        assert (event.startswith("event: problem"), address in event) == (True, True), event
        async with asyncio.timeout(patient(20)):
            said = await all_of(json_client)
        assert address in " ".join(said)

    await becomes(lambda: states(b2), {"b1": "TAKEOVER_COMPLETE", "b2": "OPERATING", "b3": "OPERATING"})
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
    b1, b2, b3 = restartable
    await becomes(lambda: linked(b2), ["b1", "b3"])
    async with b1.stomp() as client:
        await client.send(QUEUE, b"1")

    restarted = b1.request("POST", "/api/v1/broker/restart", json_body={"name": "b1"})
    assert restarted.status == 202
    await until(lambda: b1.log.count(" serves as the active one") == 2, 60.0)
    assert not await adopted(b2, b3), "a restart is no failure"
    assert b1.request("GET", "/api/v1/queues/orders").json()["depth"] == 1

    async def state_of_b1() -> str:
        return (await states(b2))["b1"]

    down = {"name": "b1", "no_failover": True}
    assert b1.request("POST", "/api/v1/shutdown", json_body=down).status == 202
    await becomes(state_of_b1, "BROKER_DOWN")
    b3.kill()  # it is taken over after b1 would have been
    # Its journal is empty, so that b2 has it for a moment only.
    await becomes(lambda: taken_over(b2), ["b3"], 30)
    assert await state_of_b1() == "BROKER_DOWN"
    done = await order(b2, member="b1")
    assert (done.status, done.json()["messages"]) == (200, 1)
    async with b2.stomp() as consumer, consumer.subscribe(QUEUE) as messages:
        assert bodies(await take(messages, 1)) == [b"1"]
