"""Brokers of one name that share a journal, as processes, and a check that no two serve at once."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import mom_client
from mom_client.stomp.encode import encode
from mom_client.stomp.frame import CONNECT, DISCONNECT
from tests.support.broker_process import BrokerProcess
from tests.support.patience import patient
from tests.support.polling import poll

LEASE_S = 1.0
#: seconds between two logins at a broker
_PROBE_S = 0.01 if "SOAK" in os.environ else 0.1


class Mirrors:
    """Brokers of `name` whose journal is at `journal`; the first one that is made is the main."""

    def __init__(self, folder: Path, name: str, journal: str, lease_s: float = LEASE_S) -> None:
        self.name = name
        self.brokers: list[BrokerProcess] = []
        self._folder = folder
        self._journal = journal
        self._lease_s = lease_s

    def make(
        self,
        *options: str,
        journal: str | None = None,
        role: int | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> BrokerProcess:
        """A broker that is not started yet; its journal may be reached by another address. `environment` are
        further variables."""
        number = len(self.brokers)
        role = role if role is not None else -1 if number else 1
        broker = BrokerProcess(
            self._folder / f"{self.name}-{number}",
            *("--name", self.name, "--role", str(role), "--lease-s", str(self._lease_s)),
            *options,
            environment={"MOM_JOURNAL": journal or self._journal, **(environment or {})},
        )
        self.brokers.append(broker)
        return broker

    def pair(self) -> tuple[BrokerProcess, BrokerProcess]:
        """A main that serves and a mirror on standby."""
        main, mirror = self.make(), self.make()
        main.start()
        mirror.start(standby=True)
        return main, mirror

    @property
    def uri(self) -> str:
        """The failover URI of all brokers."""
        addresses = [f"stomp://{one.host}:{one.stomp_port}" for one in self.brokers]
        return f"failover:({','.join(addresses)})?maxReconnectDelay=100&randomize=false"

    def client(self, **options: Any) -> mom_client.Client:
        """A client that follows the broker that serves."""
        broker = self.brokers[0]
        return mom_client.connect(self.uri, login=broker.user, passcode=broker.password, **options)

    def close(self) -> None:
        for broker in self.brokers:
            if broker.running:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(broker.pid, signal.SIGCONT)
            broker.kill()


@contextlib.contextmanager
def mirrors_in(folder: Path, name: str, journal: str, lease_s: float = LEASE_S) -> Iterator[Mirrors]:
    """Brokers that end with the block."""
    mirrors = Mirrors(folder, name, journal, lease_s)
    try:
        yield mirrors
    except BaseException:
        for broker in mirrors.brokers:
            print(f"log of {broker.data.name}:\n{broker.log[-5_000:]}")
        raise
    finally:
        mirrors.close()


def login_answer(broker: BrokerProcess, port: int = 0) -> bytes:
    """The frames with which a broker, or a proxy at `port`, answers a login that ends at once."""
    login = {"accept-version": "1.2", "host": "/", "login": broker.user, "passcode": broker.password}
    with socket.create_connection((broker.host, port or broker.stomp_port), 10) as connection:
        connection.sendall(encode(CONNECT, login, b"") + encode(DISCONNECT, {"receipt": "end"}, b""))
        found = b""
        while data := connection.recv(4096):
            found += data
    return found


def status(broker: BrokerProcess) -> dict[str, Any]:
    """The status of a broker's mirrors."""
    reply = broker.request("GET", "/api/v1/mirrors")
    assert reply.status == 200, reply.body
    (found,) = reply.json()["items"]
    return dict(found)


def serves(broker: BrokerProcess) -> bool:
    """Return whether a broker is active, also with a full store."""
    try:
        reply = broker.request("GET", "/health/ready", authorization="")
        return reply.status == 200 or b"store-full" in reply.body
    except OSError:
        return False


def wait_until_serving(broker: BrokerProcess, within_s: float = 30.0) -> None:
    poll(lambda: serves(broker), within_s)


def is_followed(broker: BrokerProcess) -> bool:
    """Return whether a broker that serves has a standby in step."""
    return any(one["state"] == "standby" and one["in_step"] for one in status(broker)["brokers"])


class Login(NamedTuple):
    """A login that was accepted: by which broker, and when it began and its answer was read."""

    broker: int
    began_at: float
    answered_at: float


async def accepts(broker: BrokerProcess, within_s: float) -> bool:
    """Return whether a broker accepts a login, in so many seconds."""
    login = {"login": broker.user, "passcode": broker.password}
    connect = encode(CONNECT, {"accept-version": "1.2", "host": "/"} | login, b"")
    with contextlib.suppress(OSError, TimeoutError, asyncio.IncompleteReadError):
        async with asyncio.timeout(within_s):
            reader, writer = await asyncio.open_connection(broker.host, broker.stomp_port)
            try:
                writer.write(connect)
                return (await reader.readline()).strip() == b"CONNECTED"
            finally:
                writer.close()
    return False


@dataclass
class Probe:
    """Logs in at every broker again and again, and notes which accepted."""

    brokers: list[BrokerProcess]
    accepted: list[Login] = field(default_factory=list)

    async def run(self) -> None:
        """Probe until cancelled."""
        async with asyncio.TaskGroup() as group:
            for number, broker in enumerate(self.brokers):
                group.create_task(self._probe(number, broker))

    async def _probe(self, number: int, broker: BrokerProcess) -> None:
        while True:
            began_at = time.monotonic()
            if await accepts(broker, patient(5)):
                self.accepted.append(Login(number, began_at, time.monotonic()))
            await asyncio.sleep(_PROBE_S)

    @property
    def changes(self) -> int:
        """How often another broker must have begun to accept.

        A broker accepts at some time between the beginning of a login and its answer, which is read late on a
        busy machine. So a change is certain where a login began after one at another broker was answered.
        """
        left, changes, holder, since = self.accepted, -1, -1, 0.0
        while left := [one for one in left if one.began_at > since]:
            others = [one for one in left if one.broker != holder]
            if not others:
                break
            first = min(others, key=lambda one: one.answered_at)
            holder, since, changes = first.broker, first.answered_at, changes + 1
        return changes
