"""A broker inside the test: engine, memory journal and STOMP over real TCP, without Django or REST."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from broker_app.base.refused import Refused
from broker_app.config import Config
from broker_app.core.broker import Broker
from broker_app.core.limits import Limits
from broker_app.engine import Engine
from broker_app.features.services.registry import ServiceRegistry
from broker_app.net.auth.login import Logins
from broker_app.net.json import JsonServer
from broker_app.net.live_subscribers import LiveSubscribers
from broker_app.net.policy.access import Access
from broker_app.net.policy.policy import Policy, UserFacts
from broker_app.net.stomp.session_registry import SessionRegistry
from broker_app.net.stomp.transports import tcp
from broker_app.net.tls.certificates import Certificates
from broker_app.net.tls.listener import TlsListener
from tests.support.memory_journal import MemoryJournal
from tests.support.patience import patient

PASSWORD = "secret"


class SmallBroker:
    """`engine`, `journal`, `lobby` and the TCP port of a running broker with the user anna. With the setting
    `tls_cert` the port speaks TLS, by `certificates`."""

    def __init__(
        self,
        engine: Engine,
        journal: MemoryJournal,
        registry: SessionRegistry,
        json: JsonServer,
        port: int,
        certificates: Certificates | None = None,
    ) -> None:
        self.certificates = certificates
        #: all that were opened; who does not end them by itself has them ended with the broker
        self.clients: list[RawClient] = []
        #: how clients speak TLS, if they do
        self.tls: ssl.SSLContext | None = None
        self.engine = engine
        self.journal = journal
        self.registry = registry
        self.json = json
        self.port = port

    async def client(self, version: str = "1.2", **headers: str) -> RawClient:
        """A client that is logged in."""
        client = await self.stranger()
        given = {"accept-version": version, "host": "/", "login": "anna", "passcode": PASSWORD} | headers
        lines = "".join(f"{name}:{value}\n" for name, value in given.items())
        client.send(f"CONNECT\n{lines}\n\0".encode())
        answer = await client.frame()
        assert answer.startswith(b"CONNECTED\n"), answer
        return client

    async def stranger(self) -> RawClient:
        """A connection without any frames yet."""
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", self.port, limit=64 * 1024 * 1024, ssl=self.tls
        )
        self.clients.append(RawClient(reader, writer))
        return self.clients[-1]


class RawClient:
    """Bytes to the broker and frames from it, with no opinion about either."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    async def frame(self) -> bytes:
        """The next frame without its NUL (heart-beats are skipped); bodies in these tests hold no NUL."""
        async with asyncio.timeout(patient(10)):
            data = await self.reader.readuntil(b"\0\n")
        return data[:-2].lstrip(b"\n")

    async def frames(self, count: int) -> list[bytes]:
        return [await self.frame() for _ in range(count)]

    async def ask(self, data: bytes) -> bytes:
        self.send(data)
        return await self.frame()

    async def ended(self) -> bytes:
        """The bytes received until the broker ends the connection."""
        async with asyncio.timeout(patient(10)):
            return await self.reader.read()

    async def close(self) -> None:
        self.writer.close()
        with contextlib.suppress(ConnectionError):
            await self.writer.wait_closed()


@contextlib.asynccontextmanager
async def small_broker(
    *, journal: MemoryJournal | None = None, limits: Limits | None = None, **settings: Any
) -> AsyncIterator[SmallBroker]:
    """Run a small broker for the length of a `with` block."""
    config = Config(data=Path("unused"), **settings)
    journal = journal or MemoryJournal()
    engine = Engine(Broker(tag=journal.tag, limits=limits), journal)
    engine.recover()
    policy = Policy(users={"anna": UserFacts("anna", PASSWORD)})
    logins = Logins(policy, lambda given, expected: given == expected, failure_delay_s=0.01)
    access = Access(logins)
    registry = SessionRegistry(engine, logins, access, config, ids=engine.broker.turn.ids)
    shown = LiveSubscribers(), registry.channels, "MOM/test"
    json = JsonServer(engine, logins, access, config, ServiceRegistry(), *shown)
    listener = socket.create_server(("127.0.0.1", 0))
    certificates = Certificates(config) if config.tls_cert is not None else None
    server: asyncio.Server | TlsListener
    if certificates is None:
        server = await tcp.listen(registry, listener)
    else:
        server = tcp.listen_tls(registry, listener, certificates)
    clock = asyncio.create_task(registry.keep_time())
    try:
        broker = SmallBroker(engine, journal, registry, json, listener.getsockname()[1], certificates)
        yield broker
        for client in broker.clients:
            await client.close()
    finally:
        clock.cancel()
        server.close()
        await registry.close_all(Refused("not-active", "the test is over"))
        if engine.ended is None:
            await engine.stop()
        journal.close()
        listener.close()
        await asyncio.sleep(0)
