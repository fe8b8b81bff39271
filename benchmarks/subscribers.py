"""Callback subscriptions and callback brokers: how soon subscribers learn of a message, and what it costs.

`python -m benchmarks.subscribers` measures, on this machine:

- 10,000 notifying subscriptions over WebSocket on one broker, with 1,000 arrivals a second;
- a machine with 200 programs that poll a callback broker, whose remote broker gets messages for them;
- the rate of W1 on a queue with and without subscribers of it that read nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import itertools
import json
import random
import secrets
import statistics
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import aiohttp
import psutil
from websockets.asyncio.client import ClientConnection, connect
from websockets.typing import Subprotocol

import mom_client
from benchmarks import machine, workloads
from benchmarks.before_after import ratios, table
from benchmarks.bench import add_output_options, finish, progress, run_or_explain, workplace
from benchmarks.child import Child
from benchmarks.generator import Generator
from benchmarks.measurement import Length, Measurement, measure
from benchmarks.run import warm_up
from benchmarks.servers import HOST, REPOSITORY, Mom

_JSON: Final = Subprotocol("mom.v1.json")
_CONNECTIONS: Final = 10
#: promises: seconds of the 99th percentile, bytes of a subscription, share of the rate
_NOTIFIED_S, _WOKEN_S, _BYTES, _SHARE = 0.2, 0.05, 16 * 1024, 0.95
_WITHOUT, _WITH = "without", "stuck"
#: subscribers that read nothing
_STUCK: Final = 20
_MIB: Final = 1024 * 1024


class Remote(Mom):
    """A broker with callbacks."""

    ports = (8146, 61729)
    options: tuple[str, ...] = ("--reflex-file", "CBdefault.cnf", "--max-subscriptions", "20000")

    @property
    def websocket(self) -> str:
        return f"ws://{HOST}:{self.ports[0]}/ws"

    @property
    def rss(self) -> int:
        """Bytes of memory."""
        return int(psutil.Process(self.pid).memory_info().rss)

    @property
    def cpu_s(self) -> float:
        """Seconds of processor time so far."""
        times = psutil.Process(self.pid).cpu_times()
        return float(times.user + times.system)


class CallbackBroker(Remote):
    """The callback broker of this machine."""

    ports = (8147, 61730)
    options = ()

    def _launch(self) -> Child:
        web, stomp = self.ports
        command = [self.python, str(REPOSITORY / "manage.py"), "broker", "--host", HOST]
        command += ["--name", "REcallback", "--role", "-2"]
        command += ["--port", str(web), "--stomp-port", str(stomp), "--data", str(self.data)]
        # The file by which programs find it is not that of the user.
        environment = {"MOM_ADMIN_PASSWORD": self.password, "XDG_STATE_HOME": str(self.directory)}
        return self._child(command, environment)


@dataclass
class Latencies:
    """Seconds from the publication of each message until its subscriber knew of it."""

    seconds: list[float] = field(default_factory=list)
    sent: int = 0

    def note(self, sent_at: float) -> None:
        self.seconds.append(time.monotonic() - sent_at)

    def percentile(self, share: float) -> float:
        ordered = sorted(self.seconds)
        return ordered[min(len(ordered) - 1, int(len(ordered) * share))]

    def line(self) -> str:
        """Median, percentiles and the longest, in ms."""
        shown = (statistics.median(self.seconds), self.percentile(0.99), max(self.seconds))
        return "p50 {:,.1f} ms, p99 {:,.1f} ms, longest {:,.1f} ms".format(*(1000 * one for one in shown))


# ---------------------------------------------------------------------- 10,000 subscriptions


@asynccontextmanager
async def subscriber(broker: Remote, queues: Sequence[str], mode: str) -> AsyncIterator[ClientConnection]:
    """A connection with a subscription to each queue."""
    async with connect(
        broker.websocket, subprotocols=[_JSON], additional_headers=broker.authorization, compression=None
    ) as connection:
        await connection.recv()
        for queue in queues:
            operation = {"op": "subscribe", "id": queue, "queue": queue, "mode": mode}
            await connection.send(json.dumps(operation))
        await connection.send('{"op":"ping","ref":"ready"}')
        while json.loads(await connection.recv()).get("ref") != "ready":
            continue
        yield connection


async def publish(broker: Remote, queues: Sequence[str], rate: float, seconds: float, sent: Sent) -> None:
    """Publish `rate` messages a second to random queues, without waiting for receipts."""
    chance = random.Random(1)
    async with mom_client.connect(
        f"stomp://{HOST}:{broker.stomp_port}", login="admin", passcode=broker.password
    ) as mom:
        began = time.monotonic()
        for number in itertools.count():
            due = began + number / rate
            now = time.monotonic()
            if now - began > seconds:
                return
            if due > now:
                await asyncio.sleep(due - now)
            queue = chance.choice(queues)
            sent.note(queue)
            mom.send_nowait(f"/queue/{queue}", str(number), persistent=True).add_done_callback(_receipt)


def _receipt(sending: asyncio.Future[None]) -> None:
    """Raise what a send has failed with."""
    sending.result()


class Sent:
    """When messages were sent to each queue, until its subscriber knows of them."""

    def __init__(self, latencies: Latencies) -> None:
        self._latencies = latencies
        self._open: dict[str, list[float]] = {}

    def note(self, queue: str) -> None:
        self._latencies.sent += 1
        self._open.setdefault(queue, []).append(time.monotonic())

    def arrived(self, queue: str, count: int) -> None:
        """The first `count` messages of a queue are known to its subscriber."""
        times = self._open.get(queue, [])
        for sent_at in times[:count]:
            self._latencies.note(sent_at)
        del times[:count]

    @property
    def missing(self) -> int:
        return sum(map(len, self._open.values()))


async def notify(broker: Remote, count: int, rate: float, seconds: float) -> tuple[Latencies, int, float]:
    """Latencies of notifications, bytes of memory of each subscription, and cores that the broker used."""
    queues = [f"sub.{number}" for number in range(count)]
    latencies = Latencies()
    sent = Sent(latencies)
    before = broker.rss
    async with AsyncExitStack() as stack:
        share = count // _CONNECTIONS
        groups = [queues[start : start + share] for start in range(0, count, share)]
        connections = [
            await stack.enter_async_context(subscriber(broker, group, "notify")) for group in groups
        ]
        each = (broker.rss - before) // count
        readers = [asyncio.create_task(_read(connection, sent)) for connection in connections]
        used, began = broker.cpu_s, time.monotonic()
        await publish(broker, queues, rate, seconds, sent)
        cores = (broker.cpu_s - used) / (time.monotonic() - began)
        await _until_all(sent)
        for reader in readers:
            reader.cancel()
    return latencies, each, cores


async def _read(connection: ClientConnection, sent: Sent) -> None:
    async for data in connection:
        event = json.loads(data)
        if event["op"] == "arrived":
            sent.arrived(event["queue"], len(event["seqs"]))


async def _until_all(sent: Sent, deadline_s: float = 20.0) -> None:
    deadline = time.monotonic() + deadline_s
    while sent.missing and time.monotonic() < deadline:
        await asyncio.sleep(0.01)


# ---------------------------------------------------------------------- callback broker


async def poll(
    remote: Remote, local: CallbackBroker, clients: int, rate: float, seconds: float
) -> tuple[Latencies, int]:
    """Latencies until the right program has its message, and the polls that the remote broker has counted."""
    names = [f"service.{number}" for number in range(clients)]
    latencies = Latencies()
    sent = Sent(latencies)
    origin = {"urls": [remote.websocket], "login": "admin", "passcode": remote.password}
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(
        f"{local.url}/api/v1/", headers=local.authorization, connector=connector
    ) as session:
        for name in names:
            body = {"name": name, "lease_s": 3600, "origin": origin}
            async with session.post("services", json=body) as reply:
                if reply.status != 201:
                    raise SystemExit(f"a service was not registered: {await reply.text()}")
        programs = [asyncio.create_task(_program(session, name, sent)) for name in names]
        await asyncio.sleep(1)
        await publish(remote, names, rate, seconds, sent)
        await _until_all(sent)
        for program in programs:
            program.cancel()
    polls = sum(row["polls"] for row in remote.ask("GET", "queues?limit=500&fields=polls")["items"])
    return latencies, polls


async def _program(session: aiohttp.ClientSession, name: str, sent: Sent) -> None:
    while True:
        body = {"wait_s": 20, "ack": "auto", "max": 10}
        async with session.post(f"queues/{name}/receive", json=body) as reply:
            reply.raise_for_status()
            sent.arrived(name, len((await reply.json())["items"]))


# ---------------------------------------------------------------------- stuck subscribers


def by_turns(
    broker: Remote, generator: Generator, length: Length, runs: int
) -> tuple[list[Measurement], Sequence[workloads.Workload]]:
    """Runs of W1 with and without stuck subscribers of its queues; which one is first changes."""
    chosen = workloads.chosen(["w1-256-100"])
    done = []
    for number in range(1, runs + 1):
        for state in (_WITHOUT, _WITH) if number % 2 else (_WITH, _WITHOUT):
            with ExitStack() as stack:
                if state == _WITH:
                    stack.callback(_stuck(broker, f"{chosen[0].name}-{number}").kill)
                run = replace(measure(chosen[0], broker, generator, length, number), server=state)
            done.append(run)
            progress(f"round {number}, {state}: {run.figures.get('rate', 0):,.0f}/s {'; '.join(run.faults)}")
    return done, chosen


def _stuck(broker: Remote, measured: str) -> Child:
    """A process with subscribers that read nothing: of notifications of the measured queue, and of a queue
    that is full."""
    name = f"stuck-{secrets.token_hex(2)}"
    items = [{"body": "x" * 1000}] * 1000
    broker.ask("POST", f"queues/{name}/messages/batch", items)
    code = (
        "import asyncio, sys\n"
        "from benchmarks.subscribers import read_nothing\n"
        "asyncio.run(read_nothing(*sys.argv[1:]))\n"
    )
    command = [sys.executable, "-c", code, broker.websocket, broker.password, measured, name]
    process = Child(name, command, broker.directory / f"{name}.log", cwd=REPOSITORY, env={})
    expected = 2 * _STUCK
    process.wait_until(lambda: broker.ask("GET", "subscribers?limit=1")["approx_total"] >= expected, 30)
    return process


async def read_nothing(websocket: str, password: str, measured: str, full: str) -> None:
    """Subscribe, over as many connections, and never read again."""
    pair = base64.b64encode(f"admin:{password}".encode()).decode()
    connections = []
    for _ in range(_STUCK):
        connection = await connect(
            websocket,
            subprotocols=[_JSON],
            additional_headers={"authorization": f"Basic {pair}"},
            max_queue=1,
            ping_interval=None,
        )
        for operation in (
            {"op": "subscribe", "id": "1", "queue": full, "credit": 1000},
            {"op": "subscribe", "id": "2", "queue": measured, "mode": "notify"},
        ):
            await connection.send(json.dumps(operation))
        connections.append(connection)
    await asyncio.sleep(3600)


# ---------------------------------------------------------------------- report


def _kept(kept: bool) -> str:
    return "kept" if kept else "missed"


def _of_notified(arguments: argparse.Namespace, found: Latencies) -> str:
    kept = found.percentile(0.99) < _NOTIFIED_S and len(found.seconds) == found.sent
    return (
        f"- {arguments.subscriptions:,} notifying subscriptions over {_CONNECTIONS} WebSockets, "
        f"{found.sent / arguments.seconds:,.0f} arrivals/s for {arguments.seconds:g} s: {found.line()}; "
        f"{len(found.seconds):,} of {found.sent:,} reported; below {1000 * _NOTIFIED_S:.0f} ms at p99: "
        f"{_kept(kept)}"
    )


def _of_memory(each: int, memory: int, cores: float) -> str:
    return (
        f"- Memory of a subscription: {each:,} bytes, at most {_BYTES:,}: {_kept(each <= _BYTES)}; the "
        f"broker has {memory / _MIB:,.0f} MiB in the end, and used {cores:.2f} cores"
    )


def _of_woken(arguments: argparse.Namespace, found: Latencies, polls: int) -> str:
    kept = found.percentile(0.99) < _WOKEN_S and len(found.seconds) == found.sent
    return (
        f"- {arguments.clients} programs poll a callback broker, {found.sent / arguments.seconds:,.0f} "
        f"messages/s: {found.line()}; {len(found.seconds):,} of {found.sent:,} received; below "
        f"{1000 * _WOKEN_S:.0f} ms at p99: {_kept(kept)}; polls at the remote broker: {polls}, promised 0: "
        f"{_kept(polls == 0)}"
    )


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.subscribers", description=__doc__)
    parser.add_argument("--subscriptions", type=int, default=10_000, help="notifying ones (10000)")
    parser.add_argument("--rate", type=float, default=1_000, help="arrivals a second (1000)")
    parser.add_argument("--clients", type=int, default=200, help="programs that poll (200)")
    parser.add_argument("--client-rate", type=float, default=100, help="messages a second for them (100)")
    parser.add_argument("--seconds", type=float, default=20, help="of publishing (20)")
    parser.add_argument("--runs", type=int, default=4, help="rounds with stuck subscribers (4)")
    add_output_options(parser)
    arguments = parser.parse_args(argv)
    length = Length(5)
    with workplace(arguments.work) as directory, ExitStack() as running:
        generator = Generator.build(directory)
        remote, local = Remote(Path(directory) / "remote"), CallbackBroker(Path(directory) / "local")
        progress(f"{remote.name} ready after {remote.start():.1f} s")
        running.callback(remote.stop)
        place = machine.describe(directory)
        warm_up(remote, generator, 5)
        done, chosen = by_turns(remote, generator, length, arguments.runs)
        progress(f"{local.name} ready after {local.start():.1f} s")
        running.callback(local.stop)
        woken, polls = asyncio.run(
            poll(remote, local, arguments.clients, arguments.client_rate, arguments.seconds)
        )
        progress(f"programs: {woken.line()}, {polls} polls at the remote broker")
        notified, each, cores = asyncio.run(
            notify(remote, arguments.subscriptions, arguments.rate, arguments.seconds)
        )
        progress(f"notifications: {notified.line()}")
        memory = remote.rss
    share = statistics.median(ratios(done, chosen[0].name, "rate", _WITHOUT))
    lines = [
        f"## Callback subscriptions, {datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        "",
        f"- Machine: {place.line()}",
        f"- {Mom.version()}; subscribers, publisher and brokers share the machine.",
        "",
        _of_notified(arguments, notified),
        _of_memory(each, memory, cores),
        _of_woken(arguments, woken, polls),
        "",
        f"W1 with {_STUCK} subscribers that read nothing, of its queues and of a full one:",
        "",
        table(chosen, done, _WITHOUT, _WITH),
        "",
        f"- {share:.3f} of the rate, at least {_SHARE:.2f}: {_kept(share >= _SHARE)}",
    ]
    plain: dict[str, object] = {
        "measurements": [run.plain() for run in done],
        "notified_s": notified.seconds,
        "woken_s": woken.seconds,
    }
    finish("\n".join(lines), arguments.json, plain, arguments.append)
    return int(any(run.faults for run in done))


if __name__ == "__main__":
    sys.exit(run_or_explain(main))
