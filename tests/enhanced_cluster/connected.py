"""Clients that stay connected to a member of an enhanced cluster until that sends them elsewhere."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed
from websockets.typing import Subprotocol

from tests.enhanced_cluster.members import MemberProcess
from tests.support.awaiting import becomes
from tests.support.patience import patient


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


class Connected:
    """A client of each protocol: STOMP, JSON over a WebSocket, a request that waits, a stream of events."""

    def __init__(
        self,
        stomp: RawStomp,
        json_client: ClientConnection,
        poll: asyncio.Task[httpx.Response],
        events: asyncio.Task[str],
    ) -> None:
        self._stomp = stomp
        self._json_client = json_client
        self._poll = poll
        self._events = events

    async def are_sent_to(self, taker: MemberProcess) -> None:
        """Check that each gets the address of the member that has taken over theirs."""
        address = f"stomp://{taker.host}:{taker.stomp_port}"
        while not (error := await self._stomp.frame()).startswith("ERROR"):
            # Until their member notices that it has lost its journal, its consumers are served by the taker.
            assert "redelivered:true" in error
        self._stomp.close()
        assert address in error
        polled = await self._poll
        assert (polled.status_code, polled.headers["location"]) == (503, taker.url)
        assert address in polled.json()["active"]
        event = await self._events
        assert (event.startswith("event: problem"), address in event) == (True, True), event
        async with asyncio.timeout(patient(20)):
            said = await _all_of(self._json_client)
        assert address in " ".join(said)


@asynccontextmanager
async def connected(broker: MemberProcess, stomp: RawStomp) -> AsyncIterator[Connected]:
    """Clients of a member; `stomp` is one of them."""
    async with (
        connect(
            f"ws://{broker.host}:{broker.port}/ws",
            subprotocols=[Subprotocol("mom.v1.json")],
            additional_headers={"Authorization": httpx.BasicAuth(broker.user, broker.password)._auth_header},
        ) as json_client,
        broker.rest() as http,
    ):
        poll = asyncio.create_task(
            http.post("/queues/empty/receive", json={"wait_s": 20}, timeout=patient(30))
        )
        begun = asyncio.Event()
        events = asyncio.create_task(_last_event(http, "/queues/empty/events", begun))
        await begun.wait()

        async def is_waiting() -> bool:
            return bool((await http.get("/broker")).json()["clients"]["rest"])

        await becomes(is_waiting, True)
        yield Connected(stomp, json_client, poll, events)


async def _last_event(http: httpx.AsyncClient, path: str, begun: asyncio.Event) -> str:
    """The last event of a stream that its broker ends; sets `begun` when it has begun."""
    async with http.stream("GET", path, timeout=patient(30)) as reply:
        begun.set()
        events = (await reply.aread()).decode().strip().split("\n\n")
    return events[-1]


async def _all_of(client: ClientConnection) -> list[str]:
    """All that a WebSocket still gets, with the reason of its end."""
    said = []
    try:
        while True:
            said.append(str(await client.recv()))
    except ConnectionClosed as closed:
        return [*said, str(closed)]
