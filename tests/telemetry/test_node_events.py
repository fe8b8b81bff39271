"""Statistics and events of a real broker: over STOMP with its clock, over REST."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import mom_client
from tests.support.broker_process import BrokerProcess
from tests.support.patience import patient

SNAPSHOT = {"snapshot": "true"}


def client(broker: BrokerProcess) -> mom_client.Client:
    return mom_client.connect(
        f"stomp://127.0.0.1:{broker.stomp_port}", login=broker.user, passcode=broker.password
    )


async def event(messages: Any, type_: str, **facts: Any) -> dict[str, Any]:
    """The next event of a type whose data has these facts."""
    async with asyncio.timeout(patient(10)):
        while True:
            body = json.loads((await messages.get(timeout_s=10)).text)
            if body.get("type") == type_ and facts.items() <= body["data"].items():
                return dict(body["data"])


async def test_events_reach_subscribers_and_statistics_come_every_second(broker: BrokerProcess) -> None:
    async with client(broker) as watcher:
        async with watcher.subscribe("/topic/$mom.>", ack="auto", headers=SNAPSHOT) as told:
            first = await event(told, "mom.conn.opened.snapshot")
            assert [connection["user"] for connection in first["items"]] == ["admin"]
            async with client(broker) as other:
                opened = await event(told, "mom.conn.opened")
                async with other.subscribe("/queue/told"):
                    await event(told, "mom.dest.created", destination="/queue/told")
                    joined = await event(told, "mom.consumer.joined", destination="/queue/told")
                    assert joined["connection"] == opened["id"]
                    await other.send("/queue/told", "hello")
                    async with asyncio.timeout(patient(10)):
                        while True:
                            message = await told.get(timeout_s=10)
                            about_it = message.headers["destination"] == "/topic/$mom.stats.told"
                            if about_it and json.loads(message.text)["published"] == 1:
                                break
            closed = await event(told, "mom.conn.closed", id=opened["id"])
            assert closed["reason"] == "the client left"
        async with watcher.subscribe("/topic/$mom.stats", ack="auto") as samples:
            times = [json.loads((await samples.get(timeout_s=5)).text)["time"] for _ in range(2)]
            assert times[0][:19] != times[1][:19]


async def test_a_connection_closed_over_rest_is_published_with_its_reason(broker: BrokerProcess) -> None:
    closing = "/topic/$mom.conn.closed"
    async with client(broker) as watcher, watcher.subscribe(closing, ack="auto") as told:
        reader, writer = await asyncio.open_connection("127.0.0.1", broker.stomp_port)
        login = f"login:{broker.user}\npasscode:{broker.password}"
        writer.write(f"CONNECT\naccept-version:1.2\nhost:/\n{login}\n\n\0".encode())
        connected = (await reader.readuntil(b"\0")).decode()
        id = connected.partition("session:")[2].partition("\n")[0]
        reply = await asyncio.to_thread(
            broker.request, "DELETE", f"/api/v1/connections/{id}", json_body={"reason": "enough"}
        )
        assert reply.status == 204
        async with asyncio.timeout(patient(5)):
            assert b'"detail":"enough"' in await reader.read()
        writer.close()
        closed = await event(told, "mom.conn.closed", id=id)
        assert "enough" in closed["reason"]


async def test_a_snapshot_of_other_topics_is_refused(broker: BrokerProcess) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", broker.stomp_port)
    login = f"login:{broker.user}\npasscode:{broker.password}"
    writer.write(f"CONNECT\naccept-version:1.2\nhost:/\n{login}\n\n\0".encode())
    writer.write(b"SUBSCRIBE\nid:1\ndestination:/topic/t\nsnapshot:true\n\n\0")
    async with asyncio.timeout(patient(5)):
        assert b"/docs/problems/unsupported" in await reader.read()
    writer.close()


def test_the_past_of_a_queue_fills_second_by_second(broker: BrokerProcess) -> None:
    reply = broker.request("POST", "/api/v1/queues/past/messages", b"x", content_type="text/plain")
    assert reply.status == 201
    while True:
        shown = broker.request("GET", "/api/v1/queues/past/stats?window_s=10")
        assert shown.status == 200
        counts = [count for count in shown.json()["series"]["in"] if count]
        if counts:
            break
    assert counts == [1]
