"""The time from the end of the broker that serves to the first message from another one.

`python -m benchmarks.failover` fills a queue and ends the broker that serves, with SIGKILL or with SIGTERM.
Clients go to all the others, which connect and subscribe until one of them gets a message. Then it brings the
broker back, and ends the next one. MOM has a main and a mirror, or two members of an enhanced cluster, with
each of its stores, RabbitMQ a quorum queue on three nodes, ActiveMQ a master and a slave with the same
KahaDB.
"""

from __future__ import annotations

import abc
import argparse
import asyncio
import json
import os
import signal
import statistics
import sys
import time
import urllib.request
from base64 import b64encode
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar

from benchmarks import machine
from benchmarks.bench import add_output_options, finish, progress, run_or_explain, workplace
from benchmarks.child import Child, ServerFailed
from benchmarks.generator import Generator
from benchmarks.servers import HOST, ActiveMQ, RabbitMQ, Server
from benchmarks.stores import Stored
from tests.support.stores import STORES

QUEUE = "deep"
KILL, STOP = "SIGKILL", "SIGTERM"
#: before the name of a store: members of an enhanced cluster, not a main and its mirror
_MEMBERS = "members-"
#: to brokers of MOM
_LOGIN = ("admin", "correct horse battery staple")
_EXPLANATION = (
    "- Seconds from the signal to the first message from another broker, by clients that try all others "
    "every 5 ms. MOM has its lease of 3 s. Bodies of 100 B, persistent. All nodes of RabbitMQ accept "
    "clients all the time."
)
#: seconds between attempts of a client to connect
_RETRY_S = 0.005
_WAIT_S = 180.0
_REPLICATION_S = 300.0
#: STOMP ports of the nodes; the others are beside them
_FIRST_PORT = 61740


class Group(abc.ABC):
    """Brokers of which one takes over when another ends; `servers` run between `start` and `stop`."""

    name: str
    #: the part of the backlog that it gets
    backlog_share: ClassVar[float] = 1
    login: tuple[str, str] = ("guest", "guest")
    destination = f"/queue/{QUEUE}"
    servers: Sequence[Server]

    def start(self) -> None:
        """Start all, the first one to serve first."""
        for server in self.servers:
            server.start()

    def stop(self) -> None:
        """Stop all."""
        for server in reversed(self.servers):
            server.stop()

    @abc.abstractmethod
    def active(self) -> Server:
        """The one that serves the queue."""

    @abc.abstractmethod
    def is_replicated(self) -> bool:
        """Return whether another one could take over now."""

    def remarks(self) -> list[str]:
        """Lines about its failovers as it reports them itself."""
        return []

    def restart(self, server: Server) -> None:
        """Bring one back that has ended."""
        server.start()

    def wait_until(self, condition: Callable[[], bool]) -> None:
        """Wait until `condition()`. Raises `ServerFailed`."""
        deadline = time.monotonic() + _REPLICATION_S
        while not _holds(condition):
            if time.monotonic() > deadline:
                raise ServerFailed(f"{self.name}: not ready for a failover within {_REPLICATION_S:g} s")
            time.sleep(0.1)


class MomBroker(Stored):
    """A broker with a shared journal; with a role below 0 on standby."""

    def __init__(self, directory: Path, store: str, url: str, number: int) -> None:
        super().__init__(directory, f"MOM, {store}", url, (8150 + number, _FIRST_PORT + number))
        self.password = _LOGIN[1]
        self.options = ("--name", "B1", "--role", "-1" if number else "1")

    def _ready(self) -> bool:
        return bool(self.request("/api/v1/health/live", lambda reply: True))

    def request(self, path: str, of: Callable[[Any], Any] = json.load) -> Any:
        """The result of `of` for a reply; None without one."""
        return _get(f"http://{HOST}:{self.ports[0]}{path}", _LOGIN, of)


class MomPair(Group):
    """A main and its mirror."""

    login = _LOGIN

    def __init__(self, directory: Path, store: str, url: str) -> None:
        self.name = f"MOM, {store}"
        self.servers = self.brokers = [MomBroker(directory / f"b{one}", store, url, one) for one in range(2)]

    def start(self) -> None:
        main, mirror = self.brokers
        main.start()
        self.wait_until(lambda: self.active() is main)
        mirror.start()

    def active(self) -> MomBroker:
        return next(one for one in self.brokers if one.request("/api/v1/health/ready", lambda reply: True))

    def is_replicated(self) -> bool:
        (found,) = self.active().request("/api/v1/mirrors")["items"]
        standbys = [one for one in found["brokers"] if one["state"] == "standby"]
        return any(one["in_step"] and not one["lag_records"] for one in standbys)


class MomMember(MomBroker):
    """A member of an enhanced cluster, with the default times of detection."""

    def __init__(self, directory: Path, store: str, url: str, number: int) -> None:
        super().__init__(directory, store, url, number)
        cluster_port = str(_FIRST_PORT + 10 + number)
        self.options = ("--name", f"b{number}", "--cluster-id", "bench", "--cluster-port", cluster_port)

    def _child(self, command: list[str], environment: dict[str, str]) -> Child:
        return super()._child(command, {**environment, "MOM_CLUSTER_SECRET": "a secret of these members"})

    def cluster(self) -> dict[str, Any]:
        """The cluster as this member reports it."""
        found: dict[str, Any] = self.request("/api/v1/cluster")
        return found

    def stored(self) -> int:
        """The messages that it serves: its own, and those that it has taken over."""
        own: int = (self.request(f"/api/v1/queues/{QUEUE}") or {"depth": 0})["depth"]
        taken: int = sum(one["messages"] for one in self.cluster()["adopted"])
        return own + taken


class MomMembers(Group):
    """Two members of an enhanced cluster, of which one has the messages."""

    login = _LOGIN

    def __init__(self, directory: Path, store: str, url: str) -> None:
        self.name = f"MOM, enhanced cluster, {store}"
        self.servers = self.members = [MomMember(directory / f"b{one}", store, url, one) for one in range(2)]

    def active(self) -> MomMember:
        return max(self.members, key=lambda one: one.stored())

    def is_replicated(self) -> bool:
        states = [link["state"] for one in self.members for link in one.cluster()["links"]]
        return len(states) >= len(self.members) and set(states) == {"up"}

    def remarks(self) -> list[str]:
        enhanced = self.active().cluster()["enhanced"]
        took = ", ".join(f"{one['took_s']:.2f}" for one in reversed(enhanced["takeovers"]))
        worst_s = enhanced["worst_case_s"]
        return [
            f"{self.name}: at most {worst_s:g} s + 1 s after SIGKILL; from the lock to the service {took} s"
        ]


class RabbitNode(RabbitMQ):
    """One node of a cluster."""

    shared_ports = RabbitMQ.ports[3:4]

    def __init__(self, directory: Path, number: int) -> None:
        super().__init__(directory)
        epmd = RabbitMQ.ports[3]
        self.node = f"b{number}@localhost"
        self.ports = (_FIRST_PORT + 10 + number, 15700 + number, 15710 + number, epmd, 25700 + number)
        if number:
            self.configuration = (
                "cluster_formation.peer_discovery_backend = classic_config\n"
                "cluster_formation.classic_config.nodes.1 = b0@localhost\n"
            )
        directory.mkdir(parents=True)
        cookie = directory / ".erlang.cookie"
        cookie.write_text("ofthisbenchmark")
        cookie.chmod(0o400)

    def kill(self) -> None:
        # The script that was started has the broker as a child in a session of its own.
        with suppress(FileNotFoundError, ProcessLookupError):
            os.kill(int((self.directory / "pid").read_text()), signal.SIGKILL)
        super().kill()

    def queue(self) -> dict[str, Any] | None:
        """The quorum queue, as this node reports it."""
        url = f"http://{HOST}:{self.ports[2]}/api/queues/%2f/{QUEUE}"
        return _get(url, ("guest", "guest"), json.load)  # type: ignore[no-any-return]


class RabbitCluster(Group):
    """Three nodes with a quorum queue."""

    name = "RabbitMQ, quorum queue"
    destination = f"/amq/queue/{QUEUE}"

    def __init__(self, directory: Path) -> None:
        self.nodes = [RabbitNode(directory / f"b{number}", number) for number in range(3)]
        self.servers = self.nodes

    def start(self) -> None:
        # Not by a node: it would end with that.
        names = {"ERL_EPMD_PORT": str(RabbitMQ.ports[3]), "ERL_EPMD_ADDRESS": HOST}
        here = self.nodes[0].directory
        self._epmd = Child("epmd", ["epmd"], here / "epmd.log", cwd=here, env=names)
        super().start()
        request = urllib.request.Request(
            f"http://{HOST}:{self.nodes[0].ports[2]}/api/queues/%2f/{QUEUE}",
            method="PUT",
            data=b'{"durable":true,"arguments":{"x-queue-type":"quorum"}}',
            headers=_authorization(("guest", "guest")) | {"Content-Type": "application/json"},
        )
        urllib.request.urlopen(request, timeout=10).close()

    def stop(self) -> None:
        super().stop()
        self._epmd.stop()

    def active(self) -> Server:
        found = next(queue for node in self.nodes if (queue := node.queue()) is not None)
        return next(node for node in self.nodes if node.node == found["leader"])

    def is_replicated(self) -> bool:
        # Each node's own report: a node that has just come back may not serve yet.
        queues = [node.queue() for node in self.nodes]
        return all(queue is not None and len(queue["online"]) == len(self.nodes) for queue in queues)


#: what has a slave report that it is one
_LOG4J = """log4j.rootLogger=INFO, out
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.layout.ConversionPattern=%p %m%n
"""


class ActiveMQBroker(ActiveMQ):
    """A broker with the data directory of another one."""

    def __init__(self, directory: Path, number: int) -> None:
        super().__init__(directory)
        self.ports = (_FIRST_PORT + 20 + number, _FIRST_PORT + 30 + number)

    def _ready(self) -> bool:
        return super()._ready() or self.waits_for_lock()

    def waits_for_lock(self) -> bool:
        """Return whether it has noticed that another one has the lock."""
        logs = self.directory.glob("*.log")
        return any("slave mode" in log.read_text(errors="replace") for log in logs)

    def _launch(self) -> Child:
        for log in self.directory.glob("*.log"):
            log.unlink()
        shared, own = self.directory.parent / "data", self.directory / "data"
        shared.mkdir(exist_ok=True)
        if not own.is_symlink():
            own.symlink_to(shared)
        (self.directory / "log4j.properties").write_text(_LOG4J)
        return super()._launch()

    def listens(self) -> bool:
        """Return whether it serves."""
        return super()._ready()


class ActiveMQPair(Group):
    """A master and a slave."""

    name = "ActiveMQ, shared store"
    backlog_share = 0.1

    def __init__(self, directory: Path) -> None:
        self.brokers = [ActiveMQBroker(directory / f"b{number}", number) for number in range(2)]
        self.servers = self.brokers

    def active(self) -> Server:
        return next(broker for broker in self.brokers if broker.listens())

    def is_replicated(self) -> bool:
        return any(broker.listens() for broker in self.brokers) and any(
            broker.waits_for_lock() and not broker.listens() for broker in self.brokers
        )


@dataclass(frozen=True)
class Outcome:
    """The seconds that clients waited, by how the broker ended."""

    name: str
    version: str
    backlog: int
    waited: dict[str, list[float]]
    remarks: list[str]

    def rows(self) -> Iterator[str]:
        """Lines of a Markdown table."""
        for how, seconds in self.waited.items():
            middle, most = statistics.median(seconds), max(seconds)
            yield f"| {self.name} | {self.backlog:,} | {how} | {middle:.2f} | {most:.2f} | {len(seconds)} |"


def measure(group: Group, generator: Generator, backlog: int, rounds: int) -> Outcome:
    """Fill the queue of a running group, and end one broker after the other."""
    backlog = int(backlog * group.backlog_share)
    fill = ["--mode", "produce", "-p", "4", "--dest", group.destination, "--size", "100", "--persistent", "1"]
    group.wait_until(group.is_replicated)
    progress(f"{group.name}: filling with {backlog:,} messages")
    generator.run([*group.active().stomp("tcp"), *fill, "--count", str(backlog)], 600 + backlog / 500)
    waited: dict[str, list[float]] = {KILL: [], STOP: []}
    for how in [KILL, STOP] * rounds:
        group.wait_until(group.is_replicated)
        active = group.active()
        others = [server.stomp_port for server in group.servers if server is not active]
        seconds = asyncio.run(_end_and_wait(group, active, how, others))
        progress(f"{group.name}: {how}, first message after {seconds:.2f} s")
        waited[how].append(seconds)
        active.stop()
        group.restart(active)
    return Outcome(group.name, type(group.servers[0]).version(), backlog, waited, group.remarks())


async def _end_and_wait(group: Group, active: Server, how: str, ports: Sequence[int]) -> float:
    """End a broker; returns the seconds until a client has a message from another one."""
    begun = time.monotonic()
    ending = asyncio.create_task(asyncio.to_thread(active.kill if how == KILL else active.stop))
    if how == KILL:
        await ending
    clients = [asyncio.create_task(first_message(group, port)) for port in ports]
    await asyncio.wait(clients, return_when=asyncio.FIRST_COMPLETED)
    await ending
    for client in clients:
        client.cancel()
    await asyncio.gather(*clients, return_exceptions=True)
    done = [client.result() for client in clients if client.done() and not client.cancelled()]
    if not done:
        raise ServerFailed(f"{group.name}: no message within {_WAIT_S:g} s")
    return min(done) - begun


async def first_message(group: Group, port: int) -> float:
    """Connect and subscribe until a message comes; returns when it came (`time.monotonic`)."""
    user, password = group.login
    login = f"CONNECT\naccept-version:1.2\nhost:/\nlogin:{user}\npasscode:{password}\n\n\0"
    subscribe = f"SUBSCRIBE\nid:1\ndestination:{group.destination}\nack:client-individual\nprefetch-count:1\n"
    async with asyncio.timeout(_WAIT_S):
        while True:
            with suppress(OSError, asyncio.IncompleteReadError):
                reader, writer = await asyncio.open_connection(HOST, port)
                try:
                    writer.write(login.encode())
                    if (await reader.readuntil(b"\0")).lstrip().startswith(b"CONNECTED"):
                        writer.write(f"{subscribe}activemq.prefetchSize:1\n\n\0".encode())
                        if (await reader.readuntil(b"\0")).lstrip().startswith(b"MESSAGE"):
                            return time.monotonic()
                finally:
                    writer.close()
            await asyncio.sleep(_RETRY_S)


def _holds(condition: Callable[[], bool]) -> bool:
    """Return whether a condition holds; not while those that it asks do not answer."""
    try:
        return condition()
    except (OSError, StopIteration, TypeError, KeyError):
        return False


def _authorization(login: tuple[str, str]) -> dict[str, str]:
    return {"Authorization": f"Basic {b64encode(':'.join(login).encode()).decode()}"}


def _get(url: str, login: tuple[str, str], of: Callable[[Any], Any]) -> Any:
    try:
        request = urllib.request.Request(url, headers=_authorization(login))
        with urllib.request.urlopen(request, timeout=5) as reply:
            return of(reply)
    except OSError:
        return None


@contextmanager
def _groups(names: Sequence[str], directory: Path) -> Iterator[Iterator[Group]]:
    def each() -> Iterator[Group]:
        for name in names:
            store_name = name.removeprefix(_MEMBERS)
            if store_name in STORES:
                make = MomPair if store_name == name else MomMembers
                with STORES[store_name]() as store:
                    yield make(directory / name, store_name, store.url())
            else:
                yield (RabbitCluster if name == "rabbitmq" else ActiveMQPair)(directory / name)

    yield each()


def main(argv: Sequence[str] | None = None) -> int:
    known = [*STORES, *(f"{_MEMBERS}{name}" for name in STORES), "rabbitmq", "activemq"]
    parser = argparse.ArgumentParser(prog="benchmarks.failover", description=__doc__)
    parser.add_argument(
        "--backlog", type=int, default=1_000_000, help="messages; ActiveMQ gets a tenth (1000000)"
    )
    parser.add_argument("--rounds", type=int, default=3, help="of each way to end (3)")
    parser.add_argument("--only", default=",".join(known), help=f"a selection of {', '.join(known)}")
    add_output_options(parser)
    arguments = parser.parse_args(argv)
    outcomes = []
    with workplace(arguments.work) as directory, _groups(arguments.only.split(","), directory) as groups:
        generator = Generator.build(directory)
        place = machine.describe(directory)
        for group in groups:
            try:
                group.start()
                outcomes.append(measure(group, generator, arguments.backlog, arguments.rounds))
            finally:
                group.stop()
    lines = [
        f"## Failover with a backlog, {datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        "",
        f"- Machine: {place.line()}",
        *(f"- {line}" for line in dict.fromkeys(f"{one.name}: {one.version}" for one in outcomes)),
        *(f"- {remark}" for one in outcomes for remark in one.remarks),
        _EXPLANATION,
        "",
        "| brokers | backlog | ended by | median s | most s | times |",
        "|---|---|---|---|---|---|",
        *(row for outcome in outcomes for row in outcome.rows()),
    ]
    plain: dict[str, object] = {"waited": {one.name: one.waited for one in outcomes}}
    finish("\n".join(lines), arguments.json, plain, arguments.append)
    return 0


if __name__ == "__main__":
    sys.exit(run_or_explain(main))
